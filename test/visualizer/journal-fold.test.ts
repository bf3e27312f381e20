import { expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, memory, type Run, type RunEvent } from '../../tools/agent/index.ts';
import { JournalFold } from '../../visualizer/page/journal-fold.ts';
import { attemptKey, buildConversation, type Entry } from '../../visualizer/page/panes/conversation.ts';
import { RunModel } from '../../visualizer/page/run-model.ts';
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

function foldAll(events: readonly Stamped[]): { fold: JournalFold; entries: Entry[] } {
  const fold = new JournalFold();
  const entries = events.map(event => ({ event, taken: fold.take(event.seq, event) }));
  return { fold, entries };
}

test('the path of a waiting run matches its journal, with counts and reasons', async () => {
  const run = await runToApproval();
  const { fold, entries } = foldAll(await readJournal(run));
  expect(fold.path).toBe('resting.awaitingApproval');
  expect(Object.fromEntries(fold.edgeCounts)).toEqual({
    'edge-deciding--turn': 2,
    'edge-turn-planning--turn-finalStreaming': 1,
    'edge-turn-finalStreaming--turn-planning': 1,
    'edge-turn--deciding': 2,
    'edge-deciding--executingTools': 1,
    'edge-executingTools--deciding': 1,
    'edge-deciding--resting-awaitingApproval': 1,
  });
  expect(fold.stateCounts.get('deciding')).toBe(4);
  const whys = entries.flatMap(({ taken }) => taken.decisions.map(({ type, why }) => `${type}: ${why}`));
  expect(whys[0]).toBe('callModel: the run starts');
  expect(whys.at(-1)).toBe('interruptForApproval: 1 call(s) of refund need a decision');
});

test('cancelling is the transition from any state', async () => {
  const run = await runToApproval();
  await run.cancel();
  const { fold } = foldAll(await readJournal(run));
  expect(fold.path).toBe('cancelled');
  expect(fold.edgeCounts.get('edge-any--cancelled')).toBe(1);
});

test('a journal that this chart cannot have written is reported, not guessed at', async () => {
  const run = await runToApproval();
  const journal = await readJournal(run);
  const { fold } = foldAll(journal.filter(({ type }) => type !== 'turn.completed'));
  expect(fold.problem).toMatch(/^The chart cannot show the run from entry \d+ on: /);
  expect(fold.path).toBeNull();
  expect(foldAll(journal.slice(3)).fold.problem).toContain('does not begin with run.started');
});

test('the conversation shows preambles, and calls in place with their outcomes, without the server', async () => {
  const run = await runToApproval();
  await run.approve('call_1_0', { by: 'Grace', input: { orderId: 'A-1001', cents: 4100, note: 'x' } });
  await run.settled();
  const { fold, entries } = foldAll(await readJournal(run));
  const streamed = new Map([[attemptKey({ turn: 3, attempt: 1 }), 'as it streamed']]);
  const source = { entries, context: fold.context, view: null, live: null, streamed, progress: new Map() };
  const blocks = buildConversation(source);
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
  expect(blocks.at(-1)).toMatchObject({ preamble: false, text: 'as it streamed' });
  expect(blocks[5]).toMatchObject({
    call: {
      name: 'refund',
      status: 'settled',
      edited: { cents: 4100 },
      decisions: [{ what: 'approved', by: 'Grace' }],
      result: { output: { refundedCents: 4100 }, isError: false },
    },
  });
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
  const { fold, entries } = foldAll(await readJournal(run));
  const blocks = buildConversation({
    entries,
    context: fold.context,
    view: null,
    live: null,
    streamed: new Map(),
    progress: new Map(),
  });
  expect(blocks.map(({ kind }) => kind)).toEqual(['message', 'aside', 'reply']);
});

test('entries that are repeated after a reconnection change nothing', async () => {
  const journal = await readJournal(await runToApproval());
  let changes = 0;
  const model = new RunModel('run', () => {
    changes += 1;
  });
  for (const event of [...journal, ...journal.slice(2)]) model.takeEntry(event);
  expect(model.entries.map(({ event }) => event.seq)).toEqual(journal.map(({ seq }) => seq));
  expect(changes).toBe(journal.length);
});

test('discarded text is not the reply: it stays with the failed attempt', async () => {
  const journal = await readJournal(await runToApproval());
  const [started] = journal;
  if (started === undefined) throw new Error('no journal');
  const model = new RunModel('run', () => {});
  const report = { runId: 'run', generation: 1, at: started.at };
  model.takeEntry(started);
  model.takeDelta({ type: 'text.delta', turn: 1, attempt: 1, text: 'Half an ans' });
  model.takeEntry({ ...report, type: 'text.started', seq: 2 });
  expect(model.conversation.at(-1)).toMatchObject({ kind: 'reply', live: true, text: 'Half an ans' });
  model.takeEntry({
    ...report,
    type: 'turn.failed',
    error: { code: 'network', message: 'lost' },
    retryable: true,
    startedAt: started.at,
    seq: 3,
  });
  expect(model.conversation.at(-1)).toMatchObject({ kind: 'failure', discarded: 'Half an ans' });
});
