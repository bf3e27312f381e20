import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it, test } from 'vitest';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { type AgentOptions, createAgent } from '../../agent/index.ts';
import { systemHost } from '../../engine/host/host.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import { textOf } from '../../protocol/message.ts';
import { memory } from '../../stores/memory.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { calls, makeGate, makeTool } from '../support/engine/agents.ts';
import { makeFile } from '../support/stores/make-file.ts';

const PAY = makeTool('pay', { approval: true });
const ANSWERS = Array.from({ length: 9 }, (_, turn): ScriptedTurn => ({ text: `Answer ${turn + 1}.` }));
const thread = 't';
const labels = { user: '7' };

function makeAgent(options: Partial<AgentOptions> & { turns?: ScriptedTurn[] } = {}) {
  const { turns = ANSWERS, ...more } = options;
  return createAgent({ name: 'desk', model: scripted(turns), tools: [PAY], store: memory(), ...more });
}

/** The bytes of a database and its log, as text. */
function textOfFile(file: string): string {
  return ['', '-wal'].map(end => (existsSync(file + end) ? readFileSync(file + end, 'latin1') : '')).join('');
}

type TestAgent = ReturnType<typeof makeAgent>;

/** Starts a run in the thread and waits until it settles. Returns its id. */
async function say(agent: TestAgent, input: string, options = {}): Promise<string> {
  const run = await agent.start(input, { thread, labels, ...options });
  await run.settled();
  return run.id;
}

async function textsOf(agent: TestAgent, of: { labels?: Labels } = {}): Promise<string[]> {
  const messages = await agent.thread(thread, { labels, ...of }).messages();
  return messages.map(item => `${item.role}: ${textOf(item)}`);
}

describe('start in a thread', () => {
  it('continues the latest run, once that has ended', async () => {
    const agent = makeAgent();
    const first = await say(agent, 'one');
    const second = await say(agent, 'two');
    const runs = await agent.thread(thread, { labels }).runs();
    expect(runs.map(({ runId, place, continues }) => [runId, place, continues])).toEqual([
      [first, 1, undefined],
      [second, 2, first],
    ]);
    expect(await textsOf(agent)).toEqual([
      'user: one',
      'assistant: Answer 1.',
      'user: two',
      'assistant: Answer 2.',
    ]);
  });

  it('sends the input to the open run, with who says it, and returns that run', async () => {
    const agent = makeAgent({ turns: [calls('pay'), ...ANSWERS], onMessage: 'supersede' });
    const first = await say(agent, 'pay', { by: 'ann' });
    const unused = { runId: 'unused', title: 'unused', limits: { turns: 1 }, paused: true };
    const run = await agent.start('never mind', { thread, labels, by: 'bob', ...unused });
    expect(run.id).toBe(first);
    expect(await run.settled()).toMatchObject({ status: 'finished', text: 'Answer 1.' });
    expect(run.context.people).toEqual({ starters: ['ann'], senders: ['ann', 'bob'] });
    expect(await agent.store.get('unused')).toBeUndefined();
    expect((await agent.thread(thread, { labels }).runs()).map(({ runId }) => runId)).toEqual([first]);
  });

  it('belongs to the labels: other labels are another thread', async () => {
    const agent = makeAgent({ turns: [calls('pay')] });
    const own = await say(agent, 'one');
    const others = [{ user: '8' }, { user: '7', tenant: 'a' }, {}];
    const ids = await Promise.all(others.map(other => say(agent, 'one', { labels: other })));
    expect(new Set([own, ...ids]).size).toBe(4);
    expect(await agent.thread(thread).runs()).toHaveLength(1);
    expect((await agent.thread(thread, { labels }).open())?.id).toBe(own);
    expect(await agent.thread(thread, { labels: { user: '9' } }).open()).toBeNull();
  });

  it('goes on with another agent once the latest run has ended, and not before', async () => {
    const store = memory();
    const desk = makeAgent({ store, turns: [calls('pay'), { text: 'Paid.' }] });
    const other = makeAgent({ store, name: 'other' });
    const first = await say(desk, 'pay');
    await expect(say(other, 'and?')).rejects.toMatchObject({ code: 'run-foreign' });
    const run = await desk.open(first);
    await run.approve('call_0_0');
    await run.settled();
    const second = await say(other, 'and?');
    expect(await store.get(second)).toMatchObject({ agent: 'other', continues: first, place: 2 });
    expect(await textsOf(desk)).toContain('assistant: Paid.');
  });

  it('begins with another run, or anew, if continues says so, unless a run is open', async () => {
    const agent = makeAgent({ turns: [{ text: 'One.' }, { text: 'Two.' }, calls('pay')] });
    const first = await say(agent, 'one');
    await say(agent, 'two');
    const third = await say(agent, 'two again', { continues: first });
    expect(await agent.store.get(third)).toMatchObject({ continues: first, place: 3 });
    expect(await textsOf(agent)).toEqual([
      'user: one',
      'assistant: One.',
      'user: two again',
      'assistant: Two.',
    ]);
    const fourth = await say(agent, 'anew', { continues: null });
    expect((await agent.store.get(fourth))?.continues).toBeUndefined();
    expect(await textsOf(agent)).toEqual(['user: anew', 'assistant: One.']);
    await say(agent, 'more');
    const open = await say(agent, 'pay');
    await expect(say(agent, 'anew', { continues: null })).rejects.toMatchObject({
      code: 'refused',
      details: { thread, runId: open },
    });
  });

  it('is what continuing its latest run means, and continuing an earlier one leaves it', async () => {
    const agent = makeAgent();
    const first = await say(agent, 'one');
    const latest = await agent.start('two', { continues: first });
    await latest.settled();
    expect(await agent.store.get(latest.id)).toMatchObject({ thread, labels, place: 2 });
    for (const options of [{ continues: first }, { continues: latest.id, labels: { user: '8' } }]) {
      const beside = await agent.start('beside', options);
      await beside.settled();
      expect(await agent.store.get(beside.id)).not.toHaveProperty('thread');
    }
    expect((await agent.thread(thread, { labels }).latest())?.runId).toBe(latest.id);
  });

  it('refuses the id of a run that exists, and sends its open run nothing', async () => {
    const agent = makeAgent({ turns: [calls('pay'), ...ANSWERS] });
    const first = await say(agent, 'pay', { runId: 'given' });
    const seq = (await agent.store.get(first))?.seq;
    await expect(say(agent, 'pay', { runId: 'given' })).rejects.toMatchObject({ code: 'run-exists' });
    expect((await agent.store.get(first))?.seq).toBe(seq);
  });

  it('begins anew if the thread is deleted while it starts', async () => {
    const agent = makeAgent();
    await say(agent, 'one');
    const { list } = agent.store;
    agent.store.list = async (...given) => {
      const found = await list(...given);
      agent.store.list = list;
      await agent.thread(thread, { labels }).delete();
      return found;
    };
    await say(agent, 'anew');
    expect(await textsOf(agent)).toEqual(['user: anew', 'assistant: Answer 1.']);
  });

  it('is left by the second of two runs that continue its latest run at once', async () => {
    const agent = makeAgent();
    const continues = await say(agent, 'one');
    const runs = await Promise.all(['two', 'beside'].map(input => agent.start(input, { continues })));
    await Promise.all(runs.map(run => run.settled()));
    const places = await Promise.all(runs.map(async ({ id }) => (await agent.store.get(id))?.place));
    expect(places.toSorted()).toEqual([2, undefined]);
  });

  it('is refused for an id that no thread can have', async () => {
    const agent = makeAgent();
    for (const id of ['', '.', '..', 'a\nb', 'x'.repeat(257)]) {
      await expect(agent.start('go', { thread: id })).rejects.toMatchObject({ code: 'input-invalid' });
      expect(() => agent.thread(id)).toThrow(expect.objectContaining({ code: 'input-invalid' }));
    }
    expect((await agent.store.list()).runs).toEqual([]);
  });

  test('the runs of its sub-agents belong to no thread', async () => {
    const store = memory();
    const helper = createAgent({ name: 'helper', model: scripted([{ text: 'Helped.' }]) });
    const turns = [{ toolCalls: [{ name: 'ask', arguments: { input: 'help' } }] }, { text: 'Done.' }];
    const tools = [helper.asTool({ name: 'ask', description: 'Helps.' })];
    const agent = createAgent({ name: 'top', model: scripted(turns), tools, store });
    await (await agent.start('go', { thread, labels })).settled();
    const { runs } = await store.list({ labels });
    expect(runs.map(({ agent: name, thread: of }) => [name, of]).toSorted()).toEqual([
      ['helper', undefined],
      ['top', thread],
    ]);
  });
});

describe('a thread', () => {
  it('goes on without its forks, unless one is its next run', async () => {
    const agent = makeAgent({ turns: [{ text: 'One.' }, { text: 'Two.' }, calls('pay')] });
    const first = await agent.open(await say(agent, 'one'));
    const fork = await first.fork({ at: 1 });
    await fork.settled();
    expect(await agent.store.get(fork.id)).toMatchObject({ thread });
    expect(await agent.store.get(fork.id)).not.toHaveProperty('place');
    await say(agent, 'two');
    const next = await first.fork({ at: 1, inThread: true });
    await next.settled();
    expect(await agent.store.get(next.id)).toMatchObject({ thread, place: 3 });
    expect(await textsOf(agent)).toEqual(['user: one', 'assistant: One.']);
    await say(agent, 'two');
    const open = await say(agent, 'three');
    await expect(first.fork({ at: 1, inThread: true })).rejects.toMatchObject({
      code: 'refused',
      details: { latest: open },
    });
    const alone = await agent.start('alone');
    await alone.settled();
    await expect(alone.fork({ at: 1, inThread: true })).rejects.toMatchObject({ code: 'input-invalid' });
  });

  it('has the messages as readers see them: filtered, and without what was taken back', async () => {
    const agent = makeAgent({
      turns: [{ text: 'Bad.' }, { text: 'A secret.' }, { text: 'Rude.' }],
      textFilters: [() => ({ push: text => text.replace('secret', '…'), end: () => '' })],
      guardrails: {
        answer: text => {
          if (text === 'Bad.') return { type: 'block', reason: 'bad' };
          return text === 'Rude.' ? { type: 'replace', value: 'Polite.' } : { type: 'pass' };
        },
      },
    });
    await say(agent, 'one');
    expect(await textsOf(agent)).toEqual(['user: one', 'assistant: A ….']);
    await say(agent, 'two');
    expect((await textsOf(agent)).slice(2)).toEqual(['user: two', 'assistant: Polite.']);
  });

  it('filters the texts of each agent with its own filters, and shows none of an agent that it does not know', async () => {
    const store = memory();
    const textFilters = [() => ({ push: (text: string) => text.replace('secret', '…'), end: () => '' })];
    const turns = [{ text: 'A secret.' }, { text: 'A secret.' }];
    const desk = makeAgent({ store, turns, textFilters });
    const other = makeAgent({ store, turns, name: 'other' });
    await say(desk, 'one');
    await say(other, 'two');
    expect(await textsOf(desk)).toEqual(['user: one', 'assistant: A ….', 'user: two']);
    expect(await textsOf(other)).toEqual(['user: one', 'user: two', 'assistant: A secret.']);
  });

  it('adds up what its runs spent', async () => {
    const usage = { inputTokens: 70, outputTokens: 30 };
    const agent = makeAgent({
      turns: [
        { text: 'One.', usage },
        { text: 'Two.', usage },
      ],
    });
    expect(await agent.thread(thread, { labels }).totals()).toEqual({
      runs: 0,
      turns: 0,
      tokens: 0,
      cost: 0,
      activeMs: 0,
    });
    const first = await agent.open(await say(agent, 'one'));
    await say(agent, 'two');
    await (await first.fork({ at: 1 })).settled();
    expect(await agent.thread(thread, { labels }).totals()).toMatchObject({ runs: 2, turns: 2, tokens: 200 });
  });

  it('is restored with a run that is moved to another store, and goes on there', async () => {
    const agent = makeAgent({ turns: [calls('pay'), ...ANSWERS] });
    const snapshot = (await agent.open(await say(agent, 'pay'))).snapshot();
    const there = makeAgent({ turns: [calls('pay'), ...ANSWERS], onMessage: 'supersede' });
    const moved = await there.restore(snapshot);
    expect(await there.store.get(moved.id)).toMatchObject({ thread, labels, place: 1 });
    expect(await textsOf(there)).toEqual(['user: pay']);
    expect(await say(there, 'never mind')).toBe(moved.id);
  });

  it('goes on with the successor of a run that is migrated', async () => {
    const store = memory();
    const turns = [calls('pay'), ...ANSWERS];
    const old = makeAgent({ store, turns, version: '1' });
    const first = await say(old, 'pay');
    const migrations = [{ from: { agent: '1' }, to: { agent: '2' }, migrate: (events: never) => events }];
    const agent = makeAgent({ store, turns, version: '2', migrations, onMessage: 'supersede' });
    const successor = await agent.migrate(first);
    expect(await store.get(first)).not.toHaveProperty('place');
    expect(await store.get(successor.id)).toMatchObject({ thread, place: 1 });
    expect(await say(agent, 'never mind')).toBe(successor.id);
    expect(await agent.thread(thread, { labels }).runs()).toHaveLength(1);
    expect((await agent.thread(thread, { labels }).delete()).toSorted()).toEqual(
      [first, successor.id].toSorted(),
    );
  });
});

describe('the deletion of a thread', () => {
  test('deletes its runs, forks, sub-agents and results, and nothing else: no byte of it stays in the file', async () => {
    const file = makeFile();
    const store = sqlite(file);
    const helper = createAgent({ name: 'helper', model: scripted([{ text: 'SECRET helped.' }]) });
    const turns = [
      { toolCalls: [{ name: 'ask', arguments: { input: 'SECRET help' } }] },
      { toolCalls: [{ name: 'read', arguments: {} }] },
      ...ANSWERS,
    ];
    const read = makeTool('read', { run: () => 'SECRET '.repeat(20_000) });
    const tools = [helper.asTool({ name: 'ask', description: 'Helps.' }), read];
    const agent = createAgent({ name: 'top', model: scripted(turns), tools, store });
    const first = await agent.start('SECRET one', { thread, labels });
    await first.settled();
    await (await agent.start('SECRET two', { thread, labels })).settled();
    await (await first.fork({ at: 1 })).settled();
    await (await agent.start('SECRET branch', { continues: first.id })).settled();
    const kept = await makeAgent({ store }).start('kept', { thread, labels: { user: '8' } });
    await kept.settled();
    expect(textOfFile(file)).toContain('SECRET');
    const gone = await agent.thread(thread, { labels }).delete();
    expect(gone).toHaveLength(6);
    expect((await store.list()).runs.map(({ runId }) => runId)).toEqual([kept.id]);
    expect(textOfFile(file)).not.toContain('SECRET');
    expect(await agent.thread(thread, { labels }).delete()).toEqual([]);
    await store.close();
  });

  test('waits for background work that takes a while to end after it was cancelled', async () => {
    const begun = makeGate();
    const slow = makeTool('slow', {
      sideEffect: 'none',
      background: true,
      run: (_: unknown, { signal }: { signal: AbortSignal }) => {
        begun.open();
        return new Promise((_, reject) =>
          signal.addEventListener('abort', () => setTimeout(reject, 600, signal.reason)),
        );
      },
    });
    const agent = makeAgent({ turns: [calls('slow'), { text: 'It works.' }], tools: [slow] });
    const run = await agent.start('go', { thread, labels });
    await begun.promise;
    await expect.poll(async () => (await agent.store.get(run.id))?.status).toBe('waiting');
    expect(await agent.thread(thread, { labels }).delete()).toHaveLength(2);
    expect((await agent.store.list()).runs).toEqual([]);
  });

  test('cancels a run of other labels that continues it', async () => {
    const agent = makeAgent({ turns: [{ text: 'One.' }, { text: 'Two.', delayMs: 600_000 }] });
    const first = await say(agent, 'one');
    const beside = await agent.start('two', { continues: first, labels: { user: '8' } });
    expect(await agent.thread(thread, { labels }).delete()).toEqual([first, beside.id]);
    expect((await agent.store.list()).runs).toEqual([]);
  });

  test('gives up on a run that the store lists and does not have', async () => {
    let now = Date.now();
    const agent = makeAgent({ host: { ...systemHost, now: () => (now += 10_000) } });
    const first = await say(agent, 'one');
    agent.store.delete = async () => {
      throw new EngineError('run-unknown', 'It is gone.', { runId: first });
    };
    await expect(agent.thread(thread, { labels }).delete()).rejects.toMatchObject({ code: 'run-unknown' });
  });

  test('cancels what is driven, here and in other processes, and the thread can begin anew', async () => {
    const file = makeFile();
    const turns = [{ text: 'One.' }, { text: 'Two.', delayMs: 10_000 }];
    const [agent, other] = [file, file].map(path => makeAgent({ turns, store: sqlite(path) }));
    if (agent === undefined || other === undefined) throw new Error('two agents');
    await say(agent, 'one');
    await agent.start('two', { thread, labels });
    expect(await other.thread(thread, { labels }).delete({ by: 'ann' })).toHaveLength(2);
    expect(await textsOf(agent)).toEqual([]);
    await say(agent, 'anew');
    expect(await textsOf(agent)).toEqual(['user: anew', 'assistant: One.']);
    await agent.start('two', { thread, labels });
    expect(await agent.thread(thread, { labels }).delete()).toHaveLength(2);
    await Promise.all([agent.store.close(), other.store.close()]);
  });
});
