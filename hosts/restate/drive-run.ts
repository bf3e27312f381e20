import { AsyncLocalStorage } from 'node:async_hooks';
import type { Agent } from '../../agent/agent.ts';
import { agentNamed } from '../../agent/sub-agents.ts';
import { drivesOf } from '../../engine/driver/drives.ts';
import type { RunParts } from '../../engine/driver/run-options.ts';
import { Supervisor } from '../../engine/driver/supervisor.ts';
import { settledWithin, sleep, systemHost } from '../../engine/host/host.ts';
import { loadLog } from '../../engine/log/run-log.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { hostAgent } from './followed-run.ts';
import type { RestateCalls } from './ingress.ts';
import type { Quarantine } from './requests.ts';
import { RestateStore } from './restate-store.ts';

export type Delivery = { runId: string; delivery: number };

/** Errors of Restate and of the network, after which the delivery is retried. All other errors quarantine the run. */
const PASSING: ReadonlySet<string> = new Set(['store-unavailable', 'store-reply-lost', 'store-locked']);

/** How long Restate may take to end the deliveries of a process that drains, in ms. */
const LEAVE_MS = 5_000;
const POLL_MS = 50;

/** Drives the run of one delivery. Restate delivers the run again at a deadline and after inputs. */
class DeliveredRun extends Supervisor {
  constructor(parts: RunParts) {
    // The object of an ended run calls its parent's, so the answer is not delivered from here.
    super({ ...parts, options: { ...parts.options, isAwaited: () => true } });
  }

  override wakeAtExpiry(): void {}

  override driveInBackground(): void {}
}

/**
 * The deliveries that this process is working on.
 *
 * V1 A delivery uses the engine's driver and services, and claims the run under a new epoch. The journal is written by
 *    calls to Restate's ingress, so `tool.started` is durable before a tool's function is called.
 * V2 A delivery that Restate repeats in this process joins the delivery in progress. In another process it claims the
 *    run, which fences this process.
 * V3 An error that a retry cannot correct (unknown agent, another version, a damaged journal, a defect) quarantines the
 *    run: by an entry if its journal can be folded; otherwise its object refuses deliveries until a person resumes it.
 * V4 A process that drains refuses deliveries before it uses Restate's context, so that Restate may give them to a
 *    process of any deployment. The deliveries in progress end with their run still running: its object begins another.
 */
export class Deliveries {
  readonly #calls: RestateCalls;
  readonly #store: RestateStore;
  readonly #agents: readonly Agent[];
  readonly #numbers = new Map<string, number>();
  readonly #working = new Map<string, { delivery: number; done: Promise<Quarantine | null> }>();
  /** The run that the current asynchronous call opens in order to drive it. */
  readonly #opening = new AsyncLocalStorage<{ runId: string; isTaken: boolean }>();

  #isDraining = false;

  constructor(agents: readonly Agent[], calls: RestateCalls) {
    this.#calls = calls;
    this.#store = new RestateStore(calls, this.#numbers);
    const own = (parts: RunParts) => (this.#takes(parts) ? new DeliveredRun(parts) : undefined);
    this.#agents = agents.map(agent => hostAgent(agent, { store: this.#store, calls, own }));
  }

  async drive({ runId, delivery }: Delivery): Promise<Quarantine | null> {
    const known = this.#working.get(runId);
    if (known?.delivery === delivery) return await known.done;
    const before = known?.done.catch(() => null) ?? Promise.resolve();
    const done = before.then(() => this.#drive(runId, delivery));
    this.#working.set(runId, { delivery, done });
    return await done;
  }

  assertTaken({ runId, delivery }: Delivery): void {
    if (!this.#isDraining || this.#working.get(runId)?.delivery === delivery) return;
    throw new EngineError(
      'store-unavailable',
      'This worker is being stopped: another one has to drive the run.',
    );
  }

  /** Resolves once Restate knows, with the number of runs that could not be given up in time. */
  async drain(graceMs: number): Promise<number> {
    this.#isDraining = true;
    const current = [...this.#working].map(([runId, { delivery }]) => ({ runId, delivery }));
    const kept = await drivesOf(this.#store).drain(systemHost, graceMs);
    await settledWithin(
      systemHost,
      LEAVE_MS,
      current.map(delivery => this.#hasLeft(delivery)),
    );
    return kept;
  }

  /** Until the invocation of a delivery has ended, Restate repeats it if this process exits. */
  async #hasLeft({ runId, delivery }: Delivery): Promise<void> {
    while (await this.#isCurrent({ runId, delivery })) await sleep(systemHost, POLL_MS);
  }

  async #isCurrent({ runId, delivery }: Delivery): Promise<boolean> {
    return (await this.#calls.run(runId, 'get', undefined))?.working === delivery;
  }

  abandon({ runId, delivery }: Delivery): void {
    if (this.#numbers.get(runId) === delivery) this.#numbers.delete(runId);
  }

  async #drive(runId: string, delivery: number): Promise<Quarantine | null> {
    this.#numbers.set(runId, delivery);
    try {
      const run = await this.#opening.run({ runId, isTaken: false }, () => this.#open(runId));
      await run.drive();
      return null;
    } catch (error) {
      if (error instanceof EngineError && PASSING.has(error.code)) throw error;
      return await this.#quarantine({ runId, delivery }, error);
    } finally {
      this.abandon({ runId, delivery });
      if (this.#working.get(runId)?.delivery === delivery) this.#working.delete(runId);
    }
  }

  async #open(runId: string) {
    const record = await this.#store.get(runId);
    if (record === undefined) throw new EngineError('run-unknown', `Restate has no run ${runId}.`);
    const agent = this.#agents.find(candidate => agentNamed(candidate, record.agent) !== undefined);
    if (agent !== undefined) return await agent.open(runId);
    const served = this.#agents.map(({ name }) => name).join(', ');
    throw new EngineError(
      'run-foreign',
      `This worker serves no agent "${record.agent}", only: ${served}. Deploy a worker that has it, then unpause the run.`,
    );
  }

  /** Returns an error for the run's object. Does nothing in an old delivery: the run may have been begun again. */
  async #quarantine({ runId, delivery }: Delivery, error: unknown): Promise<Quarantine | null> {
    if (!(await this.#isCurrent({ runId, delivery }))) return null;
    const reason = messageOf(error);
    const code = error instanceof EngineError ? error.code : 'refused';
    try {
      const log = await loadLog({ store: this.#store, host: systemHost }, runId);
      const put = await log.put([() => ({ type: 'run.quarantined', reason })]);
      return put.accepted ? null : { code, message: reason };
    } catch (failure) {
      if (failure instanceof EngineError && PASSING.has(failure.code)) throw failure;
      return { code, message: reason };
    }
  }

  #takes({ options: { runId } }: RunParts): boolean {
    const opening = this.#opening.getStore();
    if (opening === undefined || opening.isTaken || opening.runId !== runId) return false;
    opening.isTaken = true;
    return true;
  }
}
