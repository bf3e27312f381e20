import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import {
  calls,
  clientTool,
  eventsOf,
  makeGate,
  makeTool,
  makeTracedTool,
  wordsOf,
} from '../../support/engine/agents.ts';
import { clientCalls } from '../../support/engine/client-calls.ts';
import { recordRequests } from '../../support/engine/models.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

type Foreign = { name: string; say: (run: Run) => Promise<unknown> };

const INPUTS: Foreign[] = [
  { name: 'an approval', say: run => run.approve('call_0_1', { by: 'eve' }) },
  { name: 'a rejection', say: run => run.reject('call_0_2', { by: 'eve' }) },
  { name: 'a sticky approval', say: run => run.approve('call_0_2', { by: 'eve', sticky: true }) },
  { name: 'a result', say: run => run.answer('call_0_3', { output: 'seen', by: 'eve' }) },
  { name: 'a message', say: run => run.send('and another thing', { by: 'eve' }) },
  { name: 'a pause', say: run => run.pause() },
  { name: 'a cancellation', say: run => run.cancel({ by: 'eve' }) },
];

test('a batch whose append lost to another approval runs all approved calls, each once', async () => {
  const inner = memory();
  const host = new ManualHost();
  const keys: string[] = [];
  const slow = makeGate<string>();
  let landed = false;
  const make = (store: Store) =>
    createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('slow', 'refund', 'refund'), { text: 'done' }]),
      tools: [
        makeTool('slow', { sideEffect: 'none', run: () => slow.promise }),
        makeTracedTool('refund', keys, { approval: true }),
      ],
    });
  const store = watchStore(inner, {
    beforeAppend: async (runId, events) => {
      if (landed || !events.some(event => event.type === 'tool.started' && event.callId === 'call_0_1'))
        return;
      landed = true;
      expect(await (await make(inner).open(runId)).approve('call_0_2')).toEqual({ accepted: true });
    },
  });
  const run = await make(store).start('go');
  await host.idle();
  const approved = run.approve('call_0_1');
  slow.open('x');
  expect(await approved).toEqual({ accepted: true });
  expect((await host.settle(run.settled())).status).toBe('finished');
  expect(landed).toBe(true);
  expect(keys.toSorted()).toEqual([`${run.id}:1:call_0_1`, `${run.id}:1:call_0_2`]);
  const started = (await wordsOf(inner, run.id)).filter(word => word.startsWith('tool.started'));
  expect(started.toSorted()).toEqual([0, 1, 2].map(call => `tool.started call_0_${call}`));
});

test('a call whose append lost to another approval at a rest is journaled before it runs', async () => {
  const inner = memory();
  const host = new ManualHost();
  const faults: string[] = [];
  const keys: string[] = [];
  const state = { resting: false, approved: false, landed: false };
  const make = (store: Store) =>
    createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('refund', 'refund'), { text: 'done' }]),
      tools: [
        makeTool('refund', {
          approval: true,
          run: async (_, { key, runId, callId }) => {
            keys.push(key);
            const started = (await wordsOf(inner, runId)).filter(word => word === `tool.started ${callId}`);
            if (started.length !== 1) faults.push(`${callId} runs and was started ${started.length} times`);
          },
        }),
      ],
    });
  const store = watchStore(inner, {
    before: method => {
      if (!state.resting || state.approved || method !== 'read') return;
      state.approved = true;
      void run.approve('call_0_0');
    },
    beforeAppend: async (runId, events) => {
      if (events.some(({ type }) => type === 'turn.completed')) state.resting = true;
      if (state.landed || !events.some(({ type }) => type === 'tool.started')) return;
      state.landed = true;
      await (await make(inner).open(runId)).approve('call_0_1');
    },
  });
  const run = await make(store).start('go');
  expect((await host.settle(run.settled())).status).toBe('finished');
  expect(state).toEqual({ resting: true, approved: true, landed: true });
  expect(faults).toEqual([]);
  expect(keys.toSorted()).toEqual([`${run.id}:1:call_0_0`, `${run.id}:1:call_0_1`]);
});

test('a pause appended before a model call prevents it', async () => {
  const inner = memory();
  const host = new ManualHost();
  const { model, requests } = recordRequests(scripted([calls('read'), { text: 'done' }]));
  const make = (store: Store) =>
    createAgent({ name: 'a', host, store, model, tools: [makeTool('read', { sideEffect: 'none' })] });
  let landed = false;
  const store = watchStore(inner, {
    beforeAppend: async (runId, events) => {
      if (landed || !events.some(({ type }) => type === 'tool.settled')) return;
      landed = true;
      await (await make(inner).open(runId)).pause();
    },
  });
  const run = await make(store).start('go');
  expect(await host.settle(run.settled())).toMatchObject({ status: 'waiting', paused: true });
  await host.advance(1_000);
  expect(requests).toHaveLength(1);
  await run.unpause();
  expect((await host.settle(run.settled())).status).toBe('finished');
  expect(requests).toHaveLength(2);
});

test('J7: a result whose append loses to an input after its driver gave up is kept as late, not appended', async () => {
  const inner = memory();
  const host = new ManualHost();
  const [paid, large] = [makeGate<string>(), makeGate<string>()];
  const appending = makeGate<void>();
  const gone = new EngineError('store-unavailable', 'The connection is lost.');
  const fail = () => {
    throw gone;
  };
  let hasGivenUp = false;
  const make = (store: Store) =>
    createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('pay', 'look'), { text: 'done' }]),
      tools: [
        makeTool('pay', { run: () => paid.promise }),
        makeTool('look', { sideEffect: 'none', run: () => large.promise }),
      ],
    });
  const store = watchStore(inner, {
    beforeBlob: fail,
    before: method => {
      if (method !== 'release') return;
      hasGivenUp = true;
      fail();
    },
    beforeAppend: async (_, events) => {
      if (events.some(({ type }) => type === 'tool.settled')) await appending.promise;
    },
  });
  const run = await make(store).start('go');
  const driven = run.settled().catch(error => error);
  await host.idle();
  paid.open('paid');
  await host.idle();
  large.open('x'.repeat(2 ** 21));
  await host.idle();
  expect(hasGivenUp).toBe(true);
  await (await make(inner).open(run.id)).send('and another thing', { by: 'eve' });
  appending.open();
  expect(await driven).toBe(gone);
  await host.idle();
  const words = await wordsOf(inner, run.id);
  expect(words).toContain('tool.late call_0_0');
  expect(words).not.toContain('tool.settled call_0_0');
});

describe('E4: input of another process between any two appends', () => {
  test.each(INPUTS)(
    '$name loses nothing, repeats nothing and leaves a journal that folds',
    async ({ say }) => {
      let landings = 0;
      for (let at = 1; ; at += 1) {
        const outcome = await race(at, say);
        if (!outcome.landed) break;
        landings += 1;
        expect(outcome.problems, `before append ${at}`).toEqual([]);
      }
      expect(landings).toBeGreaterThan(8);
    },
  );
});

/** Drives a run with gates and a client call to its end; another process submits an input before the n-th append. */
async function race(at: number, say: (run: Run) => Promise<unknown>) {
  const inner = memory();
  const host = new ManualHost();
  const keys: string[] = [];
  const state = { appends: 0, landed: false };
  const make = (store: Store) =>
    createAgent({
      name: 'a',
      host,
      store,
      onMessage: 'queue',
      model: scripted([
        calls('pay', 'refund', 'refund', 'show'),
        calls('refund', 'pay'),
        { text: 'done' },
        { text: 'read' },
      ]),
      tools: [
        makeTracedTool('pay', keys),
        makeTracedTool('refund', keys, { approval: true }),
        clientTool('show'),
      ],
    });
  const foreign = make(inner);
  const store = watchStore(inner, {
    beforeAppend: async runId => {
      state.appends += 1;
      if (state.appends !== at + 1) return;
      state.landed = true;
      await say(await foreign.open(runId));
    },
  });
  const run = await make(store).start('go');
  const settled = await host.settle(workToTheEnd(run));
  const problems: string[] = [];
  const replayed = await loadRun(inner, run.id);
  const { transcript } = replayed.state.context;
  for (const key of keys) if (keys.indexOf(key) !== keys.lastIndexOf(key)) problems.push(`${key} ran twice`);
  const events = await eventsOf(inner, run.id);
  for (const key of keys) {
    if (!events.some(event => event.type === 'tool.started' && event.key === key))
      problems.push(`${key} ran and was not journaled`);
  }
  const known = events.flatMap(event =>
    event.type === 'tool.settled' || event.type === 'tool.late' ? [event.callId] : [],
  );
  for (const key of keys) if (!known.some(id => key.endsWith(id))) problems.push(`${key} ran, and is lost`);
  if (settled.status === 'finished') {
    const called = transcript.flatMap(item => (item.type === 'tool_call' ? [item.callId] : []));
    const answered = transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : []));
    if (called.join() !== answered.join()) problems.push(`calls ${called} have the results ${answered}`);
    if (settled.unread.length > 0) problems.push('a message was not read');
  } else if (settled.status !== 'cancelled') problems.push(`the run is ${settled.status}`);
  return { landed: state.landed, problems };
}

async function workToTheEnd(run: Run) {
  for (let rest = 0; rest < 30; rest += 1) {
    const settled = await run.settled();
    if (settled.status !== 'waiting') return settled;
    for (const { callId } of settled.doubts) throw new Error(`${callId} is in doubt`);
    if (settled.paused) await run.unpause();
    await Promise.all([
      ...settled.approvals.map(({ callId }) => run.approve(callId, { by: 'ann' })),
      ...clientCalls(settled).map(({ callId }) => run.answer(callId, { output: 'shown' })),
    ]);
  }
  throw new Error('the run rests again and again');
}
