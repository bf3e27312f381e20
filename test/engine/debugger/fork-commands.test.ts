import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import { toStored } from '../../../machines/snapshot.ts';
import { textOf } from '../../../protocol/message.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { tool } from '../../../tools/tool.ts';
import { calls, clientTool, eventsOf, makeTool, resultsIn, wordsOf } from '../../support/engine/agents.ts';
import { seqOf } from '../../support/engine/forked-run.ts';
import { recordRequests } from '../../support/engine/models.ts';
import { recipes, recordRun } from '../../support/engine/recorded-run.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const PAY = 'call_0_0';
const HOLD: RunCommand = { type: 'breakpoints', breakpoints: [{ id: 'pay', tool: 'pay' }] };

/** A finished run whose first turn paid, and what its forks pay in a store where `onFork` sees each new fork. */
async function paidRun(store: Store, onFork?: (runId: string) => Promise<void>) {
  const paid: number[] = [];
  const pay = tool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number().int() }),
    run: ({ cents }) => {
      paid.push(cents);
      return 'paid';
    },
  });
  const { model, requests } = recordRequests(
    scripted([{ text: 'I pay.', ...calls(['pay', { cents: 5 }]) }, { text: 'done' }]),
  );
  const make = (where: Store) => createAgent({ name: 'a', store: where, model, tools: [pay] });
  const watched = watchStore(store, {
    async afterAppend(_, [first]) {
      if (first?.type === 'run.started' && first.forkOf !== undefined) await onFork?.(first.runId);
    },
  });
  const run = await make(watched).start('go', { runId: 'run_paid' });
  await run.settled();
  paid.splice(0);
  const events = await eventsOf(store, run.id);
  const at = seqOf(events, 'turn.completed');
  return { run, events, at, paid, requests, worker: make(store) };
}

/** A worker takes each fork at once, before the process that forks does anything else. */
async function withWorker(store: Store) {
  let drive = async (_runId: string): Promise<void> => {};
  const scene = await paidRun(store, runId => drive(runId));
  drive = async runId => void (await (await scene.worker.open(runId)).settled());
  return scene;
}

const refusalOf = (fork: Promise<Run>) => fork.then(() => undefined).catch((error: unknown) => error);

describe.each<[string, () => Store]>([
  ['memory', memory],
  ['sqlite', () => sqlite(`${makeTemporaryFolder('forks')}/runs.db`)],
])('a fork with commands, which a worker takes at once, in %s', (_, open) => {
  test('is held by a breakpoint that they set, before the call of the entry it is forked at', async () => {
    const store = open();
    const { run, at, paid } = await withWorker(store);
    const fork = await run.fork({ at, commands: [HOLD] });
    expect(await fork.settled()).toMatchObject({ status: 'waiting', paused: true });
    expect((await loadRun(store, fork.id)).state.context.next).toMatchObject({ breakpoint: 'pay' });
    expect(paid).toEqual([]);
    await fork.unpause();
    expect((await fork.settled()).status).toBe('finished');
    expect(paid).toEqual([5]);
    await store.close();
  });

  test('does not exist if one of them is refused, and executes nothing', async () => {
    const store = open();
    const { run, at, paid } = await withWorker(store);
    const before = (await store.list()).runs.length;
    for (const [commands, code, index] of [
      [[HOLD, { type: 'approve', callId: 'call_none' }], 'call-unknown', 1],
      [[{ type: 'approve', callId: PAY }], 'call-not-open', 0],
      [[{ type: 'edit-turn', turn: 7, text: 'x' }], 'refused', 0],
      [[HOLD, { type: 'edit-call', callId: PAY, input: { cents: 'all' } }], 'input-invalid', 1],
      [[{ type: 'pause' }, HOLD, { type: 'resolve', callId: PAY, retry: true }], 'call-not-open', 2],
      [[{ type: 'answer', callId: PAY, runId: 'run_other', output: 1 }], 'refused', 0],
      [[{ type: 'cancel' }, { type: 'send', message: 'x' }], 'run-ended', 1],
    ] as const) {
      const refusal = await refusalOf(run.fork({ at, commands }));
      expect(refusal).toMatchObject({ code, details: { index } });
    }
    expect((await store.list()).runs).toHaveLength(before);
    expect(paid).toEqual([]);
    await store.close();
  });

  test('runs the call with the input that they edited, and no other', async () => {
    const store = open();
    const { run, at, paid } = await withWorker(store);
    const edited = await run.fork({
      at,
      commands: [{ type: 'edit-call', callId: PAY, input: { cents: 7 }, by: 'ann' }],
    });
    expect((await edited.settled()).status).toBe('finished');
    expect(paid).toEqual([7]);
    const fork = await run.fork({ at, commands: [{ type: 'edit-turn', calls: [], text: 'No.' }] });
    expect(await fork.settled()).toMatchObject({ status: 'finished', text: 'No.' });
    expect(paid).toEqual([7]);
    await store.close();
  });
});

describe('a fork with commands', () => {
  test('is one commit, in which they come before what lets the fork continue', async () => {
    const store = memory();
    const { run, at } = await paidRun(store);
    const commands = [{ type: 'set-params', params: {} }, HOLD] as const;
    const fork = await run.fork({ at, commands: [commands[0]], by: 'ann' });
    const words = await wordsOf(store, fork.id);
    expect(words.slice(-4)).toEqual(['pause.requested', 'turn.completed', 'params.changed', 'run.unpaused']);
    expect((await eventsOf(store, fork.id)).at(-1)).toMatchObject({ by: 'ann' });
    const held = await run.fork({ at, commands });
    expect((await wordsOf(store, held.id)).at(-1)).toBe('breakpoints.set');
  });

  test('gives its next turn the parameters and messages that they bring, also where the original ended', async () => {
    const { run, events, requests } = await paidRun(memory());
    const at = seqOf(events, 'turn.completed', 2);
    const params = { settings: { temperature: 0 } };
    const commands = [
      { type: 'set-params', params },
      { type: 'send', message: 'In cents?' },
    ] as const;
    const fork = await run.fork({ at, commands });
    expect((await fork.settled()).status).toBe('failed');
    expect(requests.at(-1)?.settings).toMatchObject({ temperature: 0 });
    expect(requests.at(-1)?.transcript.map(textOf).at(-1)).toBe('In cents?');
  });

  test('continues as a `pause`, `unpause` or `step` among them says', async () => {
    const { run, at, paid } = await paidRun(memory());
    const fork = async (commands: RunCommand[], paused = false) => {
      paid.splice(0);
      const settled = await (await run.fork({ at, commands, paused })).settled();
      return [settled.status, paid.length];
    };
    const edit: RunCommand = { type: 'edit-turn', text: 'Now.' };
    expect(await fork([edit])).toEqual(['finished', 1]);
    expect(await fork([edit], true)).toEqual(['waiting', 0]);
    expect(await fork([{ type: 'pause', by: 'ann' }, edit])).toEqual(['waiting', 0]);
    expect(await fork([{ type: 'pause' }, edit, { type: 'unpause' }])).toEqual(['finished', 1]);
    expect(await fork([edit, { type: 'unpause' }], true)).toEqual(['finished', 1]);
    expect(await fork([edit, { type: 'step' }])).toEqual(['waiting', 1]);
    expect(await fork([{ type: 'cancel' }])).toEqual(['cancelled', 0]);
  });

  test('stays paused where the original was paused', async () => {
    const { run, at, paid, worker } = await paidRun(memory());
    const held = await run.fork({ at, paused: true });
    const events = await eventsOf(worker.store, held.id);
    const fork = await held.fork({ at: events.length, commands: [{ type: 'edit-turn', text: 'Later.' }] });
    expect(await fork.settled()).toMatchObject({ status: 'waiting', paused: true });
    await held.unpause();
    await held.settled();
    const unpaused = seqOf(await eventsOf(worker.store, held.id), 'run.unpaused');
    const from = (commands: RunCommand[]) => held.fork({ at: unpaused, commands });
    expect(await (await from([HOLD])).settled()).toMatchObject({ status: 'waiting', paused: true });
    expect(paid).toEqual([5]);
    expect((await (await from([{ type: 'set-params', params: {} }])).settled()).status).toBe('finished');
    expect(paid).toEqual([5, 5]);
  });

  test('has the large result that they bring, and its original does not', async () => {
    const store = memory();
    const large = 'x'.repeat(5_000);
    const agent = createAgent({
      name: 'a',
      store,
      model: scripted([calls('ask'), { text: 'done' }]),
      tools: [clientTool('ask', { maxResultBytes: 1_000 }), makeTool('other')],
    });
    const run = await agent.start('go');
    await run.settled();
    const at = (await store.read(run.id)).length;
    const fork = await run.fork({ at, commands: [{ type: 'answer', callId: PAY, output: large }] });
    expect((await fork.settled()).status).toBe('finished');
    expect(await fork.output(PAY)).toBe(large);
    const received = (await eventsOf(store, fork.id)).find(({ type }) => type === 'result.received');
    const { digest } = (received as { blob: { digest: string } }).blob;
    expect(await store.readBlob(run.id, digest, 0, 9)).toBeUndefined();
    const other = { type: 'answer', callId: PAY, output: large } as const;
    expect(await refusalOf(run.fork({ at, commands: [other, other] }))).toMatchObject({
      code: 'already-decided',
      details: { index: 1 },
    });
  });

  test('replays the results of its original, but not of the calls that they decide', async () => {
    const { run, events, worker } = await paidRun(memory());
    const at = seqOf(events, 'tool.started');
    const commands = [{ type: 'resolve', callId: PAY, happened: true, output: 'twice' }] as const;
    const fork = await run.fork({ at, replayTools: true, commands });
    await fork.settled();
    expect(resultsIn(fork.context.transcript)[PAY]).toBe('twice');
    expect(worker.name).toBe('a');
  });

  test('at any entry of any run, stands where a fork without commands stands', async () => {
    let [forks, inPlay] = [0, 0];
    await fc.assert(
      fc.asyncProperty(recipes, fc.nat(), async (recipe, place) => {
        const { store, run } = await recordRun(recipe);
        const at = (place % (await store.read(run.id)).length) + 1;
        const plain = (await run.fork({ at })).durable.state;
        const made = await run
          .fork({ at, commands: [{ type: 'breakpoints', breakpoints: [] }] })
          .catch((error: { code: string }) => error.code);
        forks += 1;
        if (typeof made === 'string') {
          expect([made, plain.status]).toEqual(['run-ended', 'done']);
          return;
        }
        const { state } = made.durable;
        expect(state.value).toEqual(plain.value);
        expect(state.context.paused).toBe(plain.context.paused);
        expect(state.context.transcript).toEqual(plain.context.transcript);
        expect(state.context.next?.type).toBe(plain.context.next?.type);
        expect(toStored((await loadRun(store, made.id)).state)).toEqual(toStored(state));
        if (plain.status === 'active') inPlay += 1;
      }),
      { numRuns: 100 },
    );
    expect(forks).toBe(100);
    expect(inPlay).toBeGreaterThan(20);
  });
});
