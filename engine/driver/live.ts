import { type AnyActorRef, type CallbackActorLogic, fromCallback } from 'xstate';
import type { Context } from '../../machines/context.ts';
import { describeCancel } from '../../machines/settled.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { backOffMs } from '../../protocol/back-off.ts';
import type { Delta, Notice, ServiceInput, ServiceName } from '../../protocol/effect.ts';
import { EngineError, isThrown, messageOf } from '../../protocol/error.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { oncePer } from '../../protocol/once-per.ts';
import { optionNames, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { Settings } from '../../protocol/turn.ts';
import { cutText } from '../../text/cut-text.ts';
import { GRACE_MS, type Host, settledWithin, sleep, systemHost } from '../host/host.ts';
import type { PrepareTurn } from '../services/definition.ts';
import { makeModelTurn } from '../services/model-turn.ts';
import {
  Cancelled,
  LONGEST_REASON_BYTES,
  type Service,
  type ServiceScope,
  Stop,
  Stopped,
  Yielding,
} from '../services/service.ts';

/*
 * The live services: XState actors of the machine, without a store and a driver.
 *
 * H1 With `persist`, no model, guardrail or tool function is called before a `persist` that began after everything was
 *    reported has succeeded.
 * H2 A failure to store and a defect end in a state: calls in progress may end, no other begins, and the run rests as
 *    quarantined, with the reason. The actor stays active.
 * H3 A call that was reported as started, and whose function this process did not call, begins again with the same
 *    attempt. After any other interruption the chart decides: repeat, reconcile, or doubt.
 * H4 A cancel request aborts what runs. `run.cancelled` follows once it has ended, after the grace time at the latest.
 */

/** A service as an actor of `agentMachine`, for `agentMachine.provide({ actors })`. */
export type ServiceActor = CallbackActorLogic<ChartEvent, ServiceInput, Notice>;

export type ServiceActors = Readonly<Record<ServiceName, ServiceActor>>;

/** Options for running services as XState actors. */
export type LiveOptions = {
  /**
   * Stores the result of `actor.getPersistedSnapshot()`. Awaited before each model call and check of the answer, and between
   * `tool.started` and the call of the tool; called once at a time. Without it, a restored actor may run a call again.
   * A call that throws or rejects is repeated after a wait. After `patienceMs` the run rests in `resting.paused`, with
   * the reason in `context.quarantined`, until `run.unpaused`. `signal` is aborted when nothing waits for the call any
   * more.
   */
  persist?: (snapshot: JsonValue, options: { signal: AbortSignal }) => void | Promise<void>;
  /** How long a `persist` that fails is repeated, and one that does not return is awaited, in ms. Default 30 000. */
  patienceMs?: number;
  /** Receives text and progress as they arrive, past the machine. What it throws is ignored. */
  onDelta?: (delta: Delta) => void;
  /** Time, ids and randomness. Default: `systemHost`. */
  host?: Host;
};

const LIVE_NAMES = optionNames<LiveOptions>()('persist patienceMs onDelta host');

/** All services as actors of `agentMachine`. Throws `agent-invalid` for an unknown option or a bad `patienceMs`. */
export function actorsOf(
  services: Readonly<Record<ServiceName, Service>>,
  options: LiveOptions = {},
): ServiceActors {
  refuseUnknownOptions('services', options, LIVE_NAMES);
  return {
    modelTurn: actorOf(services.modelTurn, options),
    toolBatch: actorOf(services.toolBatch, options),
    timer: actorOf(services.timer, options),
    answerCheck: actorOf(services.answerCheck, options),
    compaction: actorOf(services.compaction, options),
  };
}

/** What this process knows about an actor, from all services that it has run for it. */
type LiveRun = { unbegun: Map<string, number>; calls: PersistCalls };

const liveRunOf = oncePer((_machine: AnyActorRef): LiveRun => {
  return { unbegun: new Map(), calls: { returned: Promise.resolve() } };
});

function actorOf(service: Service, options: LiveOptions): ServiceActor {
  const { patienceMs = 30_000, host = systemHost } = options;
  if (!(patienceMs > 0)) {
    const message = `Expected patienceMs to be a number of milliseconds above 0, got ${patienceMs}.`;
    throw new EngineError('agent-invalid', message);
  }
  return fromCallback(({ sendBack, input, self }) => {
    const machine = self._parent;
    if (machine === undefined)
      throw new Error('A service cannot run alone: pass it to agentMachine.provide({ actors }).');
    const live = new LiveService({ ...options, host, patienceMs, machine, sendBack, input });
    live.run(service);
    return () => live.end();
  });
}

type Unstamped<Event> = Event extends ChartEvent ? Omit<Event, 'at'> : never;

type LiveParts = LiveOptions & {
  host: Host;
  patienceMs: number;
  machine: AnyActorRef;
  sendBack(event: ChartEvent): void;
  input: ServiceInput;
};

/** One start of a service, which reads the machine's current context: its input is outdated in a restored actor. */
class LiveService {
  readonly #parts: LiveParts;
  readonly #stop = new Stop();
  readonly #yielding = new AbortController();
  readonly #watch: { unsubscribe(): void };
  /** Why nothing more may start. */
  #failure: { error: unknown; reason: string } | null = null;
  #done: Promise<void> = Promise.resolve();
  #isCancelling = false;

  constructor(parts: LiveParts) {
    this.#parts = parts;
    const { machine } = parts;
    // A subscription would take part in how the actor reports its errors.
    this.#watch = machine.system.inspect(({ actorRef }) => {
      if (actorRef === machine) this.#honourCancelRequest();
    });
  }

  run(service: Service): void {
    this.#done = Promise.resolve().then(() => this.#run(service));
  }

  /** Called when the machine has moved on, or its actor was stopped. */
  end(): void {
    this.#watch.unsubscribe();
    this.#stop.abort(new Stopped('The run has moved on.'));
  }

  async #run(service: Service): Promise<void> {
    this.#honourCancelRequest();
    if (this.#stop.isStopped) return;
    try {
      await service(this.#makeScope());
    } catch (error) {
      if (!isThrown(error, Stopped)) this.#giveUp(error, messageOf(error));
    }
    if (this.#failure === null || this.#stop.isStopped) return;
    const { error, reason } = this.#failure;
    const isTaken = this.#send({ type: 'run.quarantined', reason: cutText(reason, LONGEST_REASON_BYTES) });
    // A defect, in a state that cannot be quarantined: raised as an uncaught error.
    if (!isTaken)
      queueMicrotask(() => {
        throw error;
      });
  }

  #giveUp(error: unknown, reason: string): void {
    this.#failure ??= { error, reason };
    this.#yielding.abort(new Yielding(Number.POSITIVE_INFINITY));
  }

  get #context(): Context {
    return this.#parts.machine.getSnapshot().context;
  }

  #send(event: Unstamped<ChartEvent>): boolean {
    const { machine, sendBack, host } = this.#parts;
    const before = machine.getSnapshot();
    sendBack({ ...event, at: host.now() } as ChartEvent);
    return machine.getSnapshot() !== before;
  }

  #honourCancelRequest(): void {
    const { cancelling } = this.#context;
    if (cancelling === null || this.#isCancelling) return;
    this.#isCancelling = true;
    this.#stop.abort(new Cancelled());
    const graceMs = Math.min(GRACE_MS, cancelling.deadline - this.#parts.host.now());
    void settledWithin(this.#parts.host, graceMs, [this.#done]).then(() =>
      this.#send(describeCancel(this.#context, cancelling)),
    );
  }

  #assertDriving(): void {
    if (this.#stop.isStopped) throw new Stopped('The run has moved on.');
  }

  #makeScope(): ServiceScope {
    const { host, machine, input, onDelta, persist, patienceMs } = this.#parts;
    const { unbegun, calls } = liveRunOf(machine);
    const { signal: stopped } = this.#stop;
    const snapshot = () => JSON.parse(JSON.stringify(machine.getPersistedSnapshot?.() ?? null));
    const barrier = persist && new SnapshotBarrier({ persist, patienceMs, host, calls, snapshot, stopped });
    return {
      host,
      stop: this.#stop,
      yielding: this.#yielding.signal,
      until: input.until,
      context: () => this.#context,
      inherited: async () => [],
      past: async () => [],
      report: report => this.#send({ ...report, generation: input.generation }),
      reportSoon: async report => (this.#send({ ...report, generation: input.generation }) ? [] : [report]),
      durable: async () => {
        this.#assertDriving();
        await barrier?.pass().catch(error => {
          this.#giveUp(error, `The snapshot could not be stored: ${messageOf(error)}`);
          throw new Stopped('The run is given up.');
        });
        this.#assertDriving();
      },
      commitsInBackground: false,
      unbegun,
      assertDriving: () => this.#assertDriving(),
      publish: delta => void new Promise(resolve => resolve(onDelta?.(delta))).catch(() => {}),
      blobs: null,
      recordLate: () => {},
      findLiveAttempt: async () => 'an attempt of an earlier process',
    };
  }
}

/** The calls of `persist` for one actor, by all its services. `returned` resolves once the latest has returned. */
type PersistCalls = { returned: Promise<unknown> };

type BarrierOptions = Required<Pick<LiveOptions, 'persist' | 'patienceMs' | 'host'>> & {
  calls: PersistCalls;
  snapshot(): JsonValue;
  stopped: AbortSignal;
};

const BACK_OFF = { baseMs: 200, maxMs: 5_000 };

/**
 * The barrier of a service that an actor runs: stores the actor's snapshot.
 *
 * K1 `persist` is called once at a time for an actor, so an older snapshot never replaces a newer one. A call that does
 *    not return holds up the next one.
 * K2 `pass` resolves only after a `persist` that began after the call of `pass` and succeeded. Calls of `pass` during a
 *    `persist` share the next one.
 * K3 Once a pass has failed, the later ones fail too, without a call of `persist`.
 */
class SnapshotBarrier {
  readonly #options: BarrierOptions;
  #latest: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;

  constructor(options: BarrierOptions) {
    this.#options = options;
  }

  /** Rejects with the reason when patience ends, and when the service has to stop. */
  pass(): Promise<void> {
    if (this.#next === null) {
      this.#next = this.#latest.then(() => this.#store());
      this.#latest = this.#next;
    }
    return this.#next;
  }

  async #store(): Promise<void> {
    const { host, patienceMs, stopped } = this.#options;
    const begun = host.monotonic();
    const leftMs = () => patienceMs - (host.monotonic() - begun);
    for (let failures = 1; ; failures += 1) {
      const outcome = await this.#call(leftMs());
      if (outcome === 'stored') return;
      if (outcome === 'unanswered') throw new Error(`persist has not returned within ${patienceMs} ms`);
      const waitMs = backOffMs(failures, BACK_OFF, host.random());
      if (waitMs >= leftMs()) {
        const times = failures === 1 ? 'once' : `${failures} times within ${patienceMs} ms`;
        throw new Error(`persist failed ${times}: ${messageOf(outcome.error)}`);
      }
      await sleep(host, waitMs, stopped);
    }
  }

  async #call(ms: number): Promise<'stored' | 'unanswered' | { error: unknown }> {
    const { host, calls, persist, snapshot, stopped } = this.#options;
    if (stopped.aborted) return 'unanswered';
    let outcome: 'stored' | 'unanswered' | { error: unknown } = 'unanswered';
    const over = new AbortController();
    const abandoned = new AbortController();
    calls.returned = calls.returned
      .then(async () => {
        if (abandoned.signal.aborted) return;
        this.#next = null;
        await persist(snapshot(), { signal: abandoned.signal });
        outcome = 'stored';
      })
      .catch(error => {
        outcome = { error };
      })
      .then(() => over.abort());
    await sleep(host, ms, AbortSignal.any([stopped, over.signal]));
    if (!over.signal.aborted) abandoned.abort();
    return outcome;
  }
}

/** Options of `fromAdapter`. */
export type FromAdapterOptions = LiveOptions & {
  instructions?: string;
  /** The tools that the model may call. The `toolBatch` actor runs them. */
  tools?: readonly Tool[];
  settings?: Settings;
  providerOptions?: JsonObject;
  prepareTurn?: PrepareTurn;
};

const FROM_ADAPTER_NAMES = optionNames<FromAdapterOptions>()(
  'persist patienceMs onDelta host instructions tools settings providerOptions prepareTurn',
);

/**
 * The `modelTurn` actor of `agentMachine`: calls `adapter` exactly once each time it is invoked.
 *
 * @example
 * const machine = agentMachine.provide({
 *   actors: { modelTurn: fromAdapter(model, { instructions: 'Be brief.' }) },
 * });
 */
export function fromAdapter(adapter: ModelAdapter, options: FromAdapterOptions = {}): ServiceActor {
  refuseUnknownOptions('fromAdapter', options, FROM_ADAPTER_NAMES);
  const { instructions, tools = [], settings = {}, providerOptions, prepareTurn, ...live } = options;
  const byName: ReadonlyMap<string, Tool> = new Map(tools.map(tool => [tool.name, tool]));
  const service = makeModelTurn({
    models: [adapter],
    connectTools: () => Promise.resolve(byName),
    settings,
    textFilters: [],
    retry: { attempts: 3, baseMs: 500, maxMs: 30_000 },
    ...omitUndefined({ instructions, providerOptions, prepareTurn }),
  });
  return actorOf(service, live);
}
