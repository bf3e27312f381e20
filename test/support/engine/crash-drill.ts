import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { FaultPoint } from '../../../engine/host/host.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { RunBlobs } from '../../../engine/journal/run-blobs.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import { blobsOf } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, clientTool, eventsOf, makeTool } from './agents.ts';
import { clientCalls } from './client-calls.ts';
import { watchStore } from './watched-store.ts';

/**
 * One run over one store, driven by processes that end at given fault points. A process that ended is
 * abandoned: its store never answers again, and its tools and models never act again. Open calls are decided,
 * and calls in doubt are resolved from the side effects.
 */

const RUN = 'run_drill';
/** In bytes: every result of the tool exceeds it. */
const LARGE = 5;
const NEVER = new Promise<never>(() => {});

/** The side effects of each call, by key. */
type Environment = Map<string, { tool: string; keys: string[] }>;

export type Drill = {
  settled: Settled;
  world: Environment;
  transcript: readonly Item[];
  /** The calls that were in doubt. */
  doubted: Set<string>;
  /** The calls whose decision was accepted. */
  accepted: string[];
  /** The fault points at which processes ended, in order. */
  deaths: FaultPoint[];
  /** The fault points that the last process reached. */
  passed: FaultPoint[];
  processes: number;
  store: Store;
  runId: string;
};

export type DrillOptions = {
  /** The n-th process ends at its n-th given number of fault points; the last process runs to the end. */
  deaths?: readonly number[];
  durability?: 'strict' | 'relaxed';
};

export async function runDrill({ deaths = [], durability = 'strict' }: DrillOptions = {}): Promise<Drill> {
  const shared = memory();
  const drill: Omit<Drill, 'settled' | 'transcript'> = {
    world: new Map(),
    doubted: new Set<string>(),
    accepted: [],
    deaths: [],
    passed: [],
    processes: 0,
    store: shared,
    runId: RUN,
  };
  let now = Date.UTC(2026, 0, 1);
  for (;;) {
    const process = new DrilledProcess(drill, now, deaths[drill.processes], durability);
    drill.processes += 1;
    const settled = await process.work();
    if (settled !== null) {
      const { state } = await loadRun(shared, RUN);
      return { ...drill, settled, transcript: state.context.transcript };
    }
    now = process.host.now() + 11_000;
  }
}

/** Thrown at the fault point where a process ends. */
class ProcessEnded extends Error {}

class DrilledProcess {
  readonly host: ManualHost;
  readonly #drill: Omit<Drill, 'settled' | 'transcript'>;
  readonly #store: Store;
  readonly #durability: 'strict' | 'relaxed';
  #left: number;
  #over = false;
  #end = () => {};
  readonly #ended: Promise<null>;

  constructor(
    drill: Omit<Drill, 'settled' | 'transcript'>,
    now: number,
    endsAt: number | undefined,
    durability: 'strict' | 'relaxed',
  ) {
    this.#drill = drill;
    this.#durability = durability;
    this.#left = endsAt ?? Number.POSITIVE_INFINITY;
    this.#ended = new Promise(resolve => {
      this.#end = () => resolve(null);
    });
    drill.passed = [];
    this.host = new ManualHost({ now, name: `p${drill.processes}_`, reach: point => this.#reach(point) });
    this.#store = watchStore(drill.store, { before: () => this.#unlessOver() });
  }

  /** Resolves with `null` when the process ended before the run. */
  async work(): Promise<Settled | null> {
    const done = this.#workToTheEnd().catch(async error => {
      if (this.#over) return await NEVER;
      throw error;
    });
    return await this.host.settle(Promise.race([done, this.#ended]));
  }

  #reach(point: FaultPoint): void {
    if (this.#over) throw new ProcessEnded();
    this.#drill.passed.push(point);
    this.#left -= 1;
    if (this.#left > 0) return;
    this.#over = true;
    this.#drill.deaths.push(point);
    this.#end();
    throw new ProcessEnded();
  }

  /** Throws after the process has ended, so that none of its calls acts later. */
  #assertAlive(): void {
    if (this.#over) throw new ProcessEnded();
  }

  #unlessOver(): Promise<never> | undefined {
    return this.#over ? NEVER : undefined;
  }

  async #workToTheEnd(): Promise<Settled> {
    const agent = createAgent({
      name: 'drill',
      host: this.host,
      store: this.#store,
      durability: this.#durability,
      model: this.#makeModels(),
      tools: this.#makeTools(),
      toolConcurrency: 3,
    });
    const known = await this.#drill.store.get(RUN);
    const run = known === undefined ? await agent.start('go', { runId: RUN }) : await agent.open(RUN);
    for (;;) {
      const settled = await run.settled();
      if (settled.status !== 'waiting') return settled;
      for (const { callId } of settled.approvals) {
        const answer = await run.approve(callId, { by: 'ann' });
        if (answer.accepted) this.#drill.accepted.push(callId);
      }
      for (const { callId } of clientCalls(settled)) {
        const answer = await run.answer(callId, { output: 'from the client', by: 'bob' });
        if (answer.accepted) this.#drill.accepted.push(callId);
      }
      for (const { callId } of settled.doubts) {
        this.#drill.doubted.add(callId);
        const acted = (this.#drill.world.get(callId)?.keys.length ?? 0) > 0;
        await run.resolve(callId, acted ? { happened: true, output: 'found outside' } : { retry: true });
      }
    }
  }

  /** The first model fails once per process and permanently in its third turn; the second takes over. */
  #makeModels() {
    const first = calls('read', 'put', 'pay', 'ask', 'refund');
    const second = calls('refund', 'show', 'flaky', 'read');
    const third = calls('pay', 'put', 'refund');
    const busy = { error: { code: 'overloaded', times: 1 } } as const;
    const gone = { error: { code: 'authentication' } } as const;
    return [scripted([first, busy, second, gone]), scripted([first, second, third, { text: 'done' }])];
  }

  #makeTools(): Tool[] {
    const act =
      (name: string) =>
      async (_: unknown, { callId, key }: { callId: string; key: string }) => {
        this.#assertAlive();
        const done = this.#drill.world.get(callId) ?? { tool: name, keys: [] };
        this.#drill.world.set(callId, { ...done, keys: [...done.keys, key] });
        await Promise.resolve();
        this.#assertAlive();
        return `${name} ran`;
      };
    let failures = 0;
    const flaky = act('flaky');
    return [
      makeTool('read', { sideEffect: 'none', run: act('read') }),
      makeTool('put', { sideEffect: 'idempotent', maxResultBytes: LARGE, run: act('put') }),
      makeTool('pay', { maxResultBytes: LARGE, run: act('pay') }),
      makeTool('refund', { approval: true, run: act('refund') }),
      makeTool('ask', {
        run: act('ask'),
        reconcile: async ({ callId }) => {
          await this.#unlessOver();
          return this.#drill.world.has(callId)
            ? { happened: true, output: 'found by the tool' }
            : { happened: false };
        },
      }),
      makeTool('flaky', {
        sideEffect: 'idempotent',
        retries: 1,
        run: async (input, context) => {
          failures += 1;
          if (failures === 1) throw new Error('busy');
          return await flaky(input, context);
        },
      }),
      clientTool('show'),
    ];
  }
}

/** The faults of a drill: lost calls, unreported second executions, wrong results or decisions. */
export async function findFaults(drill: Drill): Promise<string[]> {
  const faults: string[] = [];
  if (drill.settled.status !== 'finished') faults.push(`the run is ${JSON.stringify(drill.settled)}`);
  const events = await eventsOf(drill.store, drill.runId);
  for (const item of drill.transcript) {
    if (item.type !== 'tool_call') continue;
    const { callId, name } = item;
    const results = drill.transcript.filter(other => other.type === 'tool_result' && other.callId === callId);
    if (results.length !== 1) faults.push(`${callId} has ${results.length} results`);
    for (const result of results) {
      if (result.type === 'tool_result' && result.isError)
        faults.push(`${callId} has the result ${JSON.stringify(result.output)}`);
    }
    if (name === 'show') continue;
    const { keys = [] } = drill.world.get(callId) ?? {};
    if (keys.length === 0) faults.push(`${callId} (${name}) never happened`);
    if (new Set(keys).size > 1) faults.push(`${callId} (${name}) has the keys ${keys.join(', ')}`);
    if (ONCE.has(name) && keys.length > 1) faults.push(`${callId} (${name}) happened ${keys.length} times`);
  }
  for (const callId of drill.accepted) {
    const decisions = events.filter(
      event =>
        (event.type === 'approval.decided' || event.type === 'result.received') && event.callId === callId,
    );
    if (decisions.length !== 1) faults.push(`${callId} has ${decisions.length} decisions`);
  }
  const blobs = new RunBlobs({ store: drill.store, host: {}, runId: drill.runId });
  const named = events.flatMap(blobsOf);
  if (named.length === 0) faults.push('no result was large');
  for (const blob of named) {
    const fault = await blobs.findFault(blob);
    if (fault !== null) faults.push(`an entry ${fault}`);
  }
  for (const callId of drill.doubted) {
    if (!events.some(event => event.type === 'tool.started' && event.callId === callId))
      faults.push(`${callId} is in doubt and was never started`);
  }
  return faults;
}

const ONCE: ReadonlySet<string> = new Set(['pay', 'refund', 'ask']);
