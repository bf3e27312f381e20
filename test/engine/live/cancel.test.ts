import { describe, expect, test } from 'vitest';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { loadLog } from '../../../engine/log/run-log.ts';
import type { StoredState } from '../../../machines/snapshot.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { InDoubt } from '../../../protocol/error.ts';
import type { Settled } from '../../../protocol/run-view.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { begin, makeAgent, resume, storedStateOf } from '../../support/engine/live-actors.ts';
import { answerWith } from '../../support/engine/models.ts';

const never = new Promise<never>(() => {});

type Scene = {
  /** Where the run is when it is cancelled. */
  name: string;
  value: StoredState['value'];
  options?: Partial<AgentOptions>;
  tools?: (host: ManualHost) => Tool[];
  paused?: boolean;
};

const paying = (pay: (host: ManualHost, signal: AbortSignal) => unknown) => (host: ManualHost) => [
  makeTool('pay', { run: (_, { signal }) => pay(host, signal) }),
];

const aborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

const later = (host: ManualHost, ms: number) =>
  new Promise<string>(resolve => host.setTimer(ms, () => resolve('paid')));

const turnsOf = (...names: string[]) => ({ turns: [calls(...names), { text: 'done' }] });

const SCENES: (Scene & { turns: ReturnType<typeof calls>[] })[] = [
  {
    name: 'a model call that ignores its signal',
    value: { turn: 'planning' },
    turns: [],
    options: { model: answerWith(() => never) },
  },
  {
    name: 'tools, one of which listens to its signal',
    value: 'executingTools',
    ...turnsOf('pay', 'read'),
    tools: paying((_, signal) => aborted(signal)),
  },
  {
    name: 'tools, one of which ignores its signal',
    value: 'executingTools',
    ...turnsOf('pay', 'read'),
    tools: paying(() => never),
  },
  {
    name: 'tools, one of which returns within the grace time',
    value: 'executingTools',
    ...turnsOf('pay', 'read'),
    tools: paying(host => later(host, 2_000)),
  },
  {
    name: 'tools, one of which returns too late',
    value: 'executingTools',
    ...turnsOf('pay', 'read'),
    tools: paying(host => later(host, 20_000)),
  },
  {
    name: 'the wait before a retry',
    value: 'backingOff',
    turns: [{ error: { code: 'overloaded', times: 2 } }, { text: 'done' }],
    options: { retry: { baseMs: 60_000, maxMs: 60_000 } },
  },
  {
    name: 'a guardrail',
    value: 'finishing',
    turns: [{ text: 'done' }],
    options: { guardrails: { answer: () => never } },
  },
  { name: 'an approval', value: { resting: 'awaitingApproval' }, ...turnsOf('act', 'read') },
  {
    name: 'an approval that expires',
    value: { resting: 'awaitingApproval' },
    ...turnsOf('act'),
    tools: () => [makeTool('act', { approval: { required: true, expiresInMs: 60_000 } })],
  },
  { name: 'a result of a client', value: { resting: 'awaitingResults' }, ...turnsOf('show', 'read') },
  {
    name: 'a doubt',
    value: { resting: 'inDoubt' },
    ...turnsOf('pay', 'read'),
    tools: paying(() => {
      throw new InDoubt('The reply was lost.');
    }),
  },
  { name: 'a pause', value: { resting: 'paused' }, ...turnsOf('pay'), paused: true },
];

/** How long the scene takes to reach the state in which it is cancelled. */
const BEFORE_MS = 100;

function makeScene({ turns, tools = () => [], options = {} }: (typeof SCENES)[number], host: ManualHost) {
  return makeAgent({ turns, ...options }, host, tools(host));
}

async function cancelLive(scene: (typeof SCENES)[number], { reloads = false } = {}) {
  const host = new ManualHost();
  const agent = makeScene(scene, host);
  let actor = begin(agent, 'go', { paused: scene.paused === true });
  await host.advance(BEFORE_MS);
  if (reloads) {
    const kept = JSON.parse(JSON.stringify(actor.getPersistedSnapshot()));
    actor.stop();
    actor = resume(agent, kept);
    await host.advance(BEFORE_MS);
  }
  const { value } = actor.getSnapshot();
  const at = host.now();
  actor.send({ type: 'cancel.requested', at, deadline: at + 7_000, by: 'ann', reason: 'enough' });
  await host.advance(30_000);
  return { value, state: storedStateOf(actor), output: actor.getSnapshot().output };
}

async function cancelDurably(scene: (typeof SCENES)[number]) {
  const host = new ManualHost();
  const store = memory();
  const withStore = { ...scene, options: { ...scene.options, store } };
  const run = await makeScene(withStore, host).start('go', {
    runId: 'run_1',
    paused: scene.paused === true,
  });
  await host.advance(BEFORE_MS);
  const at = host.now();
  const event = { type: 'cancel.requested', at, deadline: at + 7_000, by: 'ann', reason: 'enough' } as const;
  // The command `cancel` would end a resting run without a request: its journal would have another event.
  const log = await loadLog({ store, host }, 'run_1');
  await log.append([() => event]);
  await host.settle(run.drive());
  const output: Settled = await host.settle(run.settled());
  const { state } = (run.snapshot() as { image: { state: StoredState } }).image;
  return { state, output };
}

describe('a cancelled actor', () => {
  test.each(SCENES)('ends in the same state as a run of the durable engine: $name', async scene => {
    const [live, durable] = [await cancelLive(scene), await cancelDurably(scene)];
    expect(live.value).toEqual(scene.value);
    expect(live.state).toEqual(durable.state);
    expect(live.output).toEqual(durable.output);
  });
});

describe('cancel.requested', () => {
  const resting = SCENES.filter(({ value }) => typeof value === 'object' && 'resting' in value);

  test.each(resting)('ends a restored actor at rest, in which nothing runs: $name', async scene => {
    const { value, state } = await cancelLive(scene, { reloads: true });
    expect(value).toEqual(scene.value);
    expect(state.value).toBe('cancelled');
  });

  test('aborts the signals of a tool and of a model call', async () => {
    for (const work of ['tool', 'model']) {
      const host = new ManualHost();
      const signals: AbortSignal[] = [];
      const wait = (signal: AbortSignal) => {
        signals.push(signal);
        return aborted(signal);
      };
      const script = answerWith(() => ({ toolCalls: [{ callId: 'c', name: 'pay' }] }));
      const model: ModelAdapter = {
        ...script,
        generate: (request, options) => {
          return work === 'model' ? wait(options.signal) : script.generate(request, options);
        },
      };
      const pay = makeTool('pay', { run: (_, { signal }) => wait(signal) });
      const actor = begin(makeAgent({ turns: [], model }, host, [pay]), 'go');
      await host.advance(BEFORE_MS);
      expect(signals.map(({ aborted: isAborted }) => isAborted)).toEqual([false]);
      actor.send({ type: 'cancel.requested', at: host.now(), deadline: host.now() + 7_000 });
      expect(signals.map(({ reason }) => reason.message)).toEqual(['The run was cancelled.']);
      await host.idle();
      expect(actor.getSnapshot().value).toBe('cancelled');
    }
  });

  test('waits for a tool up to its deadline, if that is before the end of the grace time', async () => {
    const host = new ManualHost();
    const pay = makeTool('pay', { run: () => never });
    const actor = begin(makeAgent(turnsOf('pay'), host, [pay]), 'go');
    await host.advance(BEFORE_MS);
    actor.send({ type: 'cancel.requested', at: host.now(), deadline: host.now() + 1_000 });
    await host.advance(999);
    expect(actor.getSnapshot().value).toBe('executingTools');
    await host.advance(1);
    expect(actor.getSnapshot().output).toMatchObject({ unsettled: [{ name: 'pay', status: 'running' }] });
  });

  test('starts nothing in an actor that is restored while its run is being cancelled', async () => {
    const host = new ManualHost();
    let started = 0;
    const pay = makeTool('pay', {
      run: () => {
        started += 1;
        return never;
      },
    });
    const agent = makeAgent(turnsOf('pay'), host, [pay]);
    const first = begin(agent, 'go');
    await host.advance(BEFORE_MS);
    first.send({ type: 'cancel.requested', at: host.now(), deadline: host.now() + 7_000 });
    const kept = JSON.parse(JSON.stringify(first.getPersistedSnapshot()));
    first.stop();
    const second = resume(agent, kept);
    await host.idle();
    expect(second.getSnapshot().value).toBe('cancelled');
    expect(started).toBe(1);
  });

  test('ends a run that rests because its snapshot could not be stored', async () => {
    const host = new ManualHost();
    const persist = () => Promise.reject(new Error('away'));
    const actor = begin(makeAgent(turnsOf('pay'), host), 'go', { persist });
    await host.advance(40_000);
    expect(actor.getSnapshot().context.quarantined).toContain('away');
    actor.send({ type: 'cancel.requested', at: host.now(), deadline: host.now() + 7_000 });
    expect(actor.getSnapshot().value).toBe('cancelled');
  });
});
