import { setImmediate as turn } from 'node:timers/promises';
import { createAgent } from '../../../agent/agent.ts';
import type { FaultPoint, Host } from '../../../engine/host/host.ts';
import type { CommandResult } from '../../../engine/log/refusal.ts';
import type { Settled } from '../../../engine/log/settled.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Tool, ToolCallContext } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { clientTool, eventsOf, makeTool } from '../engine/agents.ts';
import { clientCalls } from '../engine/client-calls.ts';
import { answerWith } from '../engine/models.ts';
import { watchStore } from '../engine/watched-store.ts';

/**
 * One run whose calls two processes decide at random, in any order, while processes end and are replaced. A
 * process that ended is abandoned: its store never answers again, and its tools never act again. All processes
 * share one clock.
 */

const RUN = 'run_drill';
const NEVER = new Promise<never>(() => {});
const EXPIRES_MS = 60_000;

/** Longer than a lease, so that the run of an ended process is free. */
const LAPSE_MS = 11_000;

/** Decisions pick among the latest calls. */
const LATEST = 6;

/** `reads`: none; `puts`: idempotent; `pays`: once; `asks`: once with reconcile; `shows`: client tool. */
export const TOOLS = ['reads', 'acts', 'puts', 'pays', 'asks', 'expires', 'shows', 'confirms'] as const;
export type ToolName = (typeof TOOLS)[number];

export const GATED: ReadonlySet<string> = new Set<ToolName>(['puts', 'pays', 'asks', 'expires', 'confirms']);
export const CLIENT: ReadonlySet<string> = new Set<ToolName>(['shows', 'confirms']);
export const ONCE: ReadonlySet<string> = new Set<ToolName>(['acts', 'pays', 'asks', 'expires']);

/** `call` is taken modulo the latest calls; `process` selects one of the two processes. */
export type Move = { process: 0 | 1 } & (
  | { type: 'approve'; call: number; sticky: boolean; edit: boolean }
  | { type: 'reject'; call: number; sticky: boolean }
  | { type: 'answer'; call: number }
  | { type: 'send' }
  /** The process ends after so many more fault points, of this kind or of any. */
  | { type: 'crash'; after: number; at: FaultPoint | 'any' }
  | { type: 'wait'; ms: number }
  /** Turns of the event loop until the next move. */
  | { type: 'turn'; turns: number }
);

export type DrillPlan = {
  rounds: ToolName[][];
  onMessage: 'supersede' | 'queue';
  moves: Move[];
};

/** A command that was accepted. */
type Accepted = { type: 'approve' | 'reject' | 'answer' | 'send'; callId: string; by: string };

export type Drilled = {
  settled: Settled;
  events: RunEvent[];
  transcript: readonly Item[];
  accepted: Accepted[];
  /** The side effects of each call: keys and inputs, in order. */
  world: Map<string, { key: string; input: unknown }[]>;
  crashes: number;
};

export async function drillApprovals(plan: DrillPlan): Promise<Drilled> {
  return await new ApprovalDrill(plan).perform();
}

/** Thrown at the fault point where a process ends. */
class ProcessEnded extends Error {}

class ApprovalDrill {
  readonly clock = new ManualHost();
  readonly store = memory();
  readonly world: Drilled['world'] = new Map();
  readonly plan: DrillPlan;
  readonly #accepted: Accepted[] = [];
  readonly #processes: [DrilledProcess, DrilledProcess];
  readonly #errors: unknown[] = [];
  #commands = 0;
  #crashes = 0;

  constructor(plan: DrillPlan) {
    this.plan = plan;
    this.#processes = [new DrilledProcess(this), new DrilledProcess(this)];
  }

  async perform(): Promise<Drilled> {
    await this.#processes[0].begin();
    await this.#processes[1].attach();
    for (const move of this.plan.moves) await this.#perform(move);
    const last = new DrilledProcess(this);
    for (const process of this.#processes) process.end();
    this.clock.jump(LAPSE_MS);
    await last.attach();
    const settled = await this.clock.settle(this.#workToTheEnd(last));
    for (const error of this.#errors) throw error;
    return {
      settled,
      events: await eventsOf(this.store, RUN),
      transcript: last.run.context.transcript,
      accepted: this.#accepted,
      world: this.world,
      crashes: this.#crashes,
    };
  }

  async #perform(move: Move): Promise<void> {
    const process = this.#processes[move.process];
    switch (move.type) {
      case 'turn':
        for (let count = 0; count < move.turns; count += 1) await turn();
        break;
      case 'wait':
        await this.clock.advance(move.ms);
        break;
      case 'crash':
        process.endAfter(move.after, move.at);
        break;
      default:
        await this.#submit(process, move);
    }
    for (const [place, { isOver }] of this.#processes.entries()) {
      if (!isOver) continue;
      this.#crashes += 1;
      this.clock.jump(LAPSE_MS);
      const next = new DrilledProcess(this);
      this.#processes[place] = next;
      await next.attach();
    }
  }

  /** Submits the command without waiting for its result, so that other moves interleave. */
  async #submit(
    process: DrilledProcess,
    move: Exclude<Move, { type: 'turn' | 'wait' | 'crash' }>,
  ): Promise<void> {
    this.#commands += 1;
    const by = `person ${this.#commands}`;
    const callId = move.type === 'send' ? '' : await this.#pickCall(move.call);
    if (callId === undefined) return;
    const answer = process.submit(run => {
      switch (move.type) {
        case 'approve':
          return run.approve(callId, {
            by,
            ...(move.sticky ? { sticky: true } : {}),
            ...(move.edit ? { input: { edited: by } } : {}),
          });
        case 'reject':
          return run.reject(callId, { by, reason: by, ...(move.sticky ? { sticky: true } : {}) });
        case 'answer':
          return run.answer(callId, { output: by, by });
        case 'send':
          return run.send(by, { by });
      }
    });
    const keep = ({ accepted }: CommandResult) => {
      if (accepted) this.#accepted.push({ type: move.type, callId, by });
    };
    answer.then(keep, error => this.#errors.push(error));
  }

  async #pickCall(place: number): Promise<string | undefined> {
    const made = (await eventsOf(this.store, RUN)).flatMap(event =>
      event.type === 'turn.completed' ? event.calls.map(({ callId }) => callId) : [],
    );
    const latest = made.slice(-LATEST);
    return latest[place % latest.length];
  }

  async #workToTheEnd({ run }: DrilledProcess): Promise<Settled> {
    for (let rests = 0; rests < 200; rests += 1) {
      const settled = await run.settled();
      if (settled.status !== 'waiting') return settled;
      if (settled.paused) await run.unpause();
      for (const { callId } of settled.doubts) {
        const [done] = this.world.get(callId) ?? [];
        // The tools of dead processes hang in this process, so attempts count as alive.
        const again = { retry: true, force: true } as const;
        await run.resolve(callId, done === undefined ? again : { happened: true, output: 'found' });
      }
      for (const { callId } of settled.approvals) await run.approve(callId, { by: 'the last' });
      for (const { callId } of clientCalls(settled))
        await run.answer(callId, { output: 'the last', by: 'the last' });
    }
    throw new Error('the run rests again and again');
  }
}

class DrilledProcess {
  readonly #drill: ApprovalDrill;
  readonly #host: Host;
  readonly #store: Store;
  #end: { left: number; at: FaultPoint | 'any' } = { left: Number.POSITIVE_INFINITY, at: 'any' };
  #run: Run | undefined;
  isOver = false;

  constructor(drill: ApprovalDrill) {
    this.#drill = drill;
    const { clock } = drill;
    this.#host = {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      random: () => clock.random(),
      newId: prefix => clock.newId(prefix),
      setTimer: (ms, fire) => clock.setTimer(ms, fire),
      reach: point => this.#reach(point),
    };
    this.#store = watchStore(drill.store, { before: () => this.#unlessOver() });
  }

  get run(): Run {
    if (this.#run === undefined) throw new Error('the process holds no run yet');
    return this.#run;
  }

  async begin(): Promise<void> {
    this.#run = await this.#makeAgent().start('go', { runId: RUN });
  }

  async attach(): Promise<void> {
    this.#run = await this.#makeAgent().open(RUN);
    this.#run.settled().catch(() => {});
  }

  end(): void {
    this.isOver = true;
  }

  endAfter(points: number, at: FaultPoint | 'any'): void {
    this.#end = { left: points + 1, at };
  }

  /** Never settles if the process ends before the result is known. */
  async submit(command: (run: Run) => Promise<CommandResult>): Promise<CommandResult> {
    try {
      const answer = await command(this.run);
      return this.isOver ? await NEVER : answer;
    } catch (error) {
      if (this.isOver) return await NEVER;
      throw error;
    }
  }

  #reach(point: FaultPoint): void {
    const { at } = this.#end;
    if (at === 'any' || at === point) this.#end.left -= 1;
    if (this.#end.left <= 0) this.isOver = true;
    if (this.isOver) throw new ProcessEnded();
  }

  #unlessOver(): Promise<never> | undefined {
    return this.isOver ? NEVER : undefined;
  }

  #makeAgent() {
    const { plan } = this.#drill;
    return createAgent({
      name: 'drill',
      host: this.#host,
      store: this.#store,
      onMessage: plan.onMessage,
      tools: this.#makeTools(),
      limits: { turns: 100, toolCalls: 100 },
      model: answerWith(({ transcript }) => {
        const made = transcript.flatMap(item => (item.type === 'tool_call' ? [item.callId] : []));
        const round = made.length === 0 ? 0 : Number(made.at(-1)?.split('.')[0]) + 1;
        const names = plan.rounds[round];
        if (names === undefined) return { text: 'done' };
        return { toolCalls: names.map((name, place) => ({ callId: `${round}.${place}`, name })) };
      }),
    });
  }

  #makeTools(): Tool[] {
    const { world } = this.#drill;
    const run = async (input: unknown, { callId, key }: ToolCallContext) => {
      await this.#unlessOver();
      world.set(callId, [...(world.get(callId) ?? []), { key, input }]);
      await turn();
      await this.#unlessOver();
      return `${callId} ran`;
    };
    return [
      makeTool('reads', { sideEffect: 'none', run }),
      makeTool('acts', { run }),
      makeTool('puts', { sideEffect: 'idempotent', approval: true, run }),
      makeTool('pays', { approval: true, run }),
      makeTool('asks', {
        approval: true,
        run,
        reconcile: async ({ callId }) => {
          await this.#unlessOver();
          return world.has(callId) ? { happened: true, output: 'found' } : { happened: false };
        },
      }),
      makeTool('expires', { approval: { required: true, expiresInMs: EXPIRES_MS }, run }),
      clientTool('shows'),
      clientTool('confirms', { approval: true }),
    ];
  }
}
