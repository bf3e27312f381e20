import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, type Run, type RunEvent } from '../../agent/index.ts';
import { factsAt } from '../../visualizer/page/model/call-facts.ts';
import { CHECKPOINT_EVERY, Folded, FoldedJournal } from '../../visualizer/page/model/journal-fold.ts';
import { RunModel, textOfLive } from '../../visualizer/page/model/run-model.ts';
import { TimeLine, timesAt } from '../../visualizer/page/model/time-line.ts';
import { makeDemoAgents } from '../support/visualizer/demo-agents.ts';

type Stamped = RunEvent & { runId: string; seq: number };

async function readJournal(run: Run): Promise<Stamped[]> {
  const events: Stamped[] = [];
  for await (const event of run.events()) if ('seq' in event) events.push(event);
  return events;
}

async function runToApproval(): Promise<Run> {
  const [refunds] = makeDemoAgents().agents;
  if (refunds === undefined) throw new Error('no agent');
  const run = await refunds.start('Refund A-1001');
  await run.settled();
  return run;
}

function foldAll(events: readonly Stamped[]): Folded[] {
  let folded = Folded.start;
  return events.map(event => (folded = folded.take(event.seq, event)));
}

async function modelOf(run: Run): Promise<RunModel> {
  const model = new RunModel(run.id);
  model.takeEntries(await readJournal(run));
  return model;
}

test('the path of a waiting run matches its journal, with counts and reasons', async () => {
  const folds = foldAll(await readJournal(await runToApproval()));
  const last = folds.at(-1) ?? Folded.start;
  expect(last.path).toBe('resting.awaitingApproval');
  const counts = {
    'edge-deciding--turn': 2,
    'edge-turn-planning--turn-finalStreaming': 1,
    'edge-turn-finalStreaming--turn-planning': 1,
    'edge-turn--deciding': 2,
    'edge-deciding--executingTools': 1,
    'edge-executingTools--deciding': 1,
    'edge-deciding--resting-awaitingApproval': 1,
    'edge-deciding--failed': 0,
  };
  expect(Object.fromEntries(Object.keys(counts).map(id => [id, last.count(id)]))).toEqual(counts);
  expect(last.count('deciding')).toBe(4);
  const whys = folds.flatMap(({ taken }) => taken.decisions.map(({ type, why }) => `${type}: ${why}`));
  expect(whys[0]).toBe('callModel: the run starts');
  expect(whys.at(-1)).toBe('interruptForApproval: 1 call of refund needs a decision');
});

test('cancelling is the transition from any state', async () => {
  const run = await runToApproval();
  await run.cancel();
  const last = foldAll(await readJournal(run)).at(-1);
  expect(last?.path).toBe('cancelled');
  expect(last?.count('edge-any--cancelled')).toBe(1);
});

test('a journal that this chart cannot have written is reported, not guessed at', async () => {
  const journal = await readJournal(await runToApproval());
  const last = foldAll(journal.filter(({ type }) => type !== 'turn.completed')).at(-1);
  expect(last?.problem).toMatch(/^The chart cannot show the run from entry \d+ on: /);
  expect(last?.path).toBeNull();
  expect(foldAll(journal.slice(3)).at(-1)?.problem).toContain('does not begin with run.started');
});

test('the fold at any entry is the same from a checkpoint, in any order of questions', () => {
  const at = 1_700_000_000_000;
  const base: Stamped[] = [];
  const entry = (event: object): void =>
    void base.push({
      at: at + base.length,
      runId: 'run',
      seq: base.length + 1,
      ...event,
    } as unknown as Stamped);
  return readJournalOfDemo().then(journal => {
    for (const event of journal) entry({ ...event, seq: base.length + 1 });
    while (base.length < 3 * CHECKPOINT_EVERY)
      entry({
        type: 'message.received',
        items: [{ type: 'message', role: 'user', content: [{ type: 'text', text: 'x' }] }],
      });
    const straight = foldAll(base);
    const folded = new FoldedJournal(seq => base[seq - 1]);
    for (const event of base) folded.take(event);
    for (const seq of [700, 3, 255, 256, 257, 699, 512, 1, 511, 700]) {
      const expected = straight[seq - 1];
      expect(folded.at(seq).context, `at ${seq}`).toEqual(expected?.context);
      expect(folded.at(seq).count('deciding')).toBe(expected?.count('deciding'));
      expect(folded.at(seq).taken.decisions).toEqual(expected?.taken.decisions);
    }
    expect(folded.at(0).context).toBeNull();
  });
});

async function readJournalOfDemo(): Promise<Stamped[]> {
  return await readJournal(await runToApproval());
}

test('the conversation shows preambles, and calls in place with their outcomes, without the server', async () => {
  const run = await runToApproval();
  await run.approve('call_1_0', { by: 'Grace', input: { orderId: 'A-1001', cents: 4100, note: 'x' } });
  await run.settled();
  const model = new RunModel(run.id);
  const journal = await readJournal(run);
  const end = journal.findLastIndex(({ type }) => type === 'turn.completed');
  model.takeEntries(journal.slice(0, end));
  model.takeDelta({ type: 'text.delta', turn: 3, attempt: 1, text: 'as it streamed' });
  model.takeEntries(journal.slice(end));
  const { blocks, calls } = model.story;
  expect(blocks.map(({ kind }) => kind)).toEqual([
    'message',
    'reasoning',
    'reply',
    'call',
    'call',
    'call',
    'reply',
  ]);
  expect(blocks[2]).toMatchObject({ preamble: true });
  const last = blocks.at(-1);
  expect(last?.kind === 'reply' && model.readReply(last)).toEqual({ text: 'as it streamed', before: null });
  const refund = calls.get('call_1_0');
  if (refund === undefined) throw new Error('no call');
  const factsIn = (seq: number) =>
    factsAt(refund, seq, { folded: model.foldAt(seq), progress: new Map(), isAtEnd: false });
  expect(factsIn(model.last.value)).toMatchObject({
    name: 'refund',
    status: 'settled',
    edited: { cents: 4100 },
    decisions: [{ what: 'approved', by: 'Grace' }],
    result: { output: { refundedCents: 4100 }, isError: false },
  });
  expect(factsIn(refund.seq)).toMatchObject({ status: 'gated', decisions: [], result: null });
});

test('a rejected call is no error of the call', async () => {
  const run = await runToApproval();
  await run.reject('call_1_0', { reason: 'no' });
  await run.settled();
  const model = await modelOf(run);
  const refund = model.story.calls.get('call_1_0');
  if (refund === undefined) throw new Error('no call');
  const source = { folded: model.fold, progress: new Map(), isAtEnd: true };
  expect(factsAt(refund, model.last.value, source).status).toBe('rejected');
});

test('a draft of the planning turn is an aside, not a reply', async () => {
  const agent = createAgent({
    name: 'drafts',
    model: scripted([{ text: 'draft' }, { text: 'answer' }]),
    store: memory(),
    finalAnswer: 'separate',
  });
  const run = await agent.start('Go');
  await run.settled();
  const { story } = await modelOf(run);
  expect(story.blocks.map(({ kind }) => kind)).toEqual(['message', 'aside', 'reply']);
});

test('entries that are repeated after a reconnection change nothing, and a gap is reported', async () => {
  const journal = await readJournal(await runToApproval());
  const model = new RunModel('run');
  expect(model.takeEntries([...journal, ...journal.slice(2)])).toBe(true);
  expect(model.last.value).toBe(journal.length);
  expect(model.story.activities.map(({ seq }) => seq)).toEqual(journal.map(({ seq }) => seq));
  const other = new RunModel('run');
  expect(other.takeEntries(journal.slice(0, 2))).toBe(true);
  expect(other.takeEntries(journal.slice(4))).toBe(false);
  expect(other.last.value).toBe(2);
});

test('a journal that is loaded from its end tells the same once its beginning is there', async () => {
  const run = await runToApproval();
  await run.approve('call_1_0');
  await run.settled();
  const journal = await readJournal(run);
  const whole = await modelOf(run);
  const state = whole.foldAt(9).state;
  if (state === null) throw new Error('no state');
  const model = new RunModel(run.id);
  await model.beginAt(Folded.from(9, state), journal.slice(9), () => Promise.resolve());
  expect(model.path.value).toBe('finished');
  expect(model.fold.context).toEqual(whole.fold.context);
  expect(model.first.value).toBe(10);
  model.addOlder(journal.slice(0, 9));
  await model.retell(() => Promise.resolve());
  expect(model.first.value).toBe(1);
  expect(model.story.blocks).toEqual(whole.story.blocks);
  expect(model.foldAt(4).context).toEqual(whole.foldAt(4).context);
});

test('discarded text is not the reply: it stays with the failed attempt', async () => {
  const journal = await readJournal(await runToApproval());
  const [started] = journal;
  if (started === undefined) throw new Error('no journal');
  const model = new RunModel('run');
  const report = { runId: 'run', generation: 1, at: started.at };
  model.takeEntries([started]);
  model.takeDelta({ type: 'text.delta', turn: 1, attempt: 1, text: 'Half an ans' });
  model.takeEntries([{ ...report, type: 'text.started', seq: 2 }]);
  expect(textOfLive(model.live.value)).toBe('Half an ans');
  const failed = { error: { code: 'network', message: 'lost' }, retryable: true, startedAt: started.at };
  model.takeEntries([{ ...report, type: 'turn.failed', ...failed, seq: 3 }]);
  expect(model.live.value).toBeNull();
  const block = model.story.blocks.at(-1);
  expect(block).toMatchObject({ kind: 'failure', attempts: [{ seq: 3, hadText: true, key: '1/1' }] });
  expect(model.streamed.get('1/1')).toBe('Half an ans');
});

test('after a request to cancel, no text is being written, and none that arrives later', async () => {
  const [started] = await readJournal(await runToApproval());
  if (started === undefined) throw new Error('no journal');
  const model = new RunModel('run');
  const delta = { type: 'text.delta', turn: 1, attempt: 1, text: 'Half an ans' } as const;
  model.takeEntries([started]);
  model.takeDelta(delta);
  expect(textOfLive(model.live.value)).toBe('Half an ans');
  const { at } = started;
  model.takeEntries([{ type: 'cancel.requested', at, deadline: at + 1_000, runId: 'run', seq: 2 }]);
  expect(model.live.value).toBeNull();
  model.takeDelta(delta);
  model.takeTextSoFar({ turn: 1, attempt: 1, text: 'Half an answer' });
  expect(model.live.value).toBeNull();
});

test('the arguments of a call are shown as they stream, in their place, until the turn is complete', async () => {
  const journal = await readJournal(await runToApproval());
  const completed = journal.findIndex(({ type }) => type === 'turn.completed');
  const model = new RunModel('run');
  model.takeEntries(journal.slice(0, completed));
  const place = { turn: 1, attempt: 1 };
  model.takeDelta({ type: 'reasoning.delta', ...place, text: 'First the customer.' });
  model.takeDelta({ type: 'text.delta', ...place, text: 'I look.' });
  model.takeDelta({ type: 'call.delta', ...place, index: 0, callId: 'call_0_0', name: 'customer', text: '' });
  model.takeDelta({ type: 'call.delta', ...place, index: 0, text: '{"id":' });
  model.takeDelta({ type: 'call.delta', ...place, index: 0, text: '1}' });
  expect([...(model.live.value?.parts.values() ?? [])]).toEqual([
    { kind: 'reasoning', name: '', text: 'First the customer.' },
    { kind: 'text', name: '', text: 'I look.' },
    { kind: 'call', name: 'customer', text: '{"id":1}' },
  ]);
  expect(model.path.value).toBe('turn.planning');
  model.takeEntries(journal.slice(completed));
  expect(model.live.value).toBeNull();
  expect(model.streamed.get('1/1')).toBe('I look.');
});

test('what the agent says that has the conversation is shown as it streams, once, until it is cancelled', async () => {
  const started = (await readJournal(await runToApproval())).slice(0, 1);
  const model = new RunModel('run');
  model.takeEntries(started);
  const piece = { type: 'answer.delta', callId: 'c1', source: '1/1' } as const;
  model.takeDelta({ ...piece, at: 0, text: 'I look' });
  model.takeDelta({ ...piece, at: 6, text: ' it up.' });
  model.takeDelta({ ...piece, at: 0, text: 'I look it up. Soon.' });
  expect(model.answering.value).toBe('I look it up. Soon.');
  model.takeDelta({ ...piece, source: '2/1', at: 0, text: 'You ' });
  expect(model.answering.value).toBe('You ');
  const at = started[0]?.at ?? 0;
  model.takeEntries([{ type: 'cancel.requested', at, deadline: at + 1_000, runId: 'run', seq: 2 }]);
  expect(model.answering.value).toBe('');
});

test('text that arrives before the entries that a page missed stays, and a reconnection replaces it', async () => {
  const journal = await readJournal(await runToApproval());
  const turns = journal.flatMap(({ type }, at) => (type === 'turn.completed' ? [at] : []));
  const [first = 0, second = 0] = turns;
  const model = new RunModel('run');
  model.takeEntries(journal.slice(0, first));
  const place = { turn: 2, attempt: 1 };
  model.takeTextSoFar({ ...place, text: 'Half' });
  model.takeDelta({ type: 'reasoning.delta', ...place, text: 'Why not.' });
  model.takeEntries(journal.slice(first, second - 1));
  model.takeDelta({ type: 'text.delta', ...place, text: ' an answer' });
  expect(textOfLive(model.live.value)).toBe('Half an answer');
  model.takeTextSoFar({ ...place, text: 'Half an answer, and' });
  expect(textOfLive(model.live.value)).toBe('Half an answer, and');
  model.takeEntries(journal.slice(second - 1));
  expect(model.live.value).toBeNull();
});

test('of a journal that the chart cannot fold, the page shows what the entries say', async () => {
  const run = await runToApproval();
  await run.approve('call_1_0');
  await run.settled();
  const journal = await readJournal(run);
  const settled = journal.findIndex(({ type }) => type === 'tool.settled');
  const model = new RunModel('run');
  model.takeEntries(journal.toSpliced(settled, 1).map((event, index) => ({ ...event, seq: index + 1 })));
  expect(model.fold.problem).toContain('The chart cannot show the run');
  const whole = await modelOf(run);
  const texts = (of: RunModel) => of.story.blocks.map(({ kind, at }) => [kind, at]);
  expect(texts(model)).toEqual(texts(whole));
});

test('rests are collapsed on the time line, and each entry has a place of its own', () => {
  const activities = [
    { seq: 1, at: 0, kind: 'model' as const, path: 'turn.planning' },
    { seq: 2, at: 1_000, kind: 'person' as const, path: 'resting.awaitingApproval' },
    { seq: 3, at: 3_601_000, kind: 'tool' as const, path: 'executingTools' },
    { seq: 4, at: 3_602_000, kind: 'none' as const, path: 'finished' },
  ];
  const line = new TimeLine(activities);
  expect(line.restMs).toBe(3_600_000);
  const person = line.spans.find(({ kind }) => kind === 'person');
  expect((person?.to ?? 1) - (person?.from ?? 0)).toBeLessThan(0.12);
  for (const { seq } of activities) expect(line.entryAt(line.placeOf(seq))).toBe(seq);
  expect(line.placeOfTime(500)).toBeCloseTo(line.placeOf(2) / 2);
  expect(line.workMs).toBe(2_000);
  expect(line.placeOfWork(500)).toBe(line.placeOfTime(500));
  expect(line.placeOfWork(1_500)).toBe(line.placeOfTime(3_601_500));
  expect([...timesAt(activities, 3)]).toEqual([
    ['turn.planning', 1_000],
    ['turn', 1_000],
    ['resting.awaitingApproval', 3_600_000],
    ['resting', 3_600_000],
  ]);
});
