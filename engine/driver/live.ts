import { type AnyActorRef, type CallbackActorLogic, fromCallback } from 'xstate';
import type { Context } from '../../machines/context.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Delta, Notice, ServiceInput, ServiceName } from '../../protocol/effect.ts';
import { EngineError, isThrown } from '../../protocol/error.ts';
import type { ChartEvent, ReportEvent } from '../../protocol/event.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { Settings } from '../../protocol/turn.ts';
import type { PrepareTurn } from '../definition.ts';
import { makeModelTurn } from '../services/model-turn.ts';
import { type Report, type Service, type ServiceScope, Stop, Stopped } from '../services/service.ts';
import { type Host, systemHost } from './host.ts';

/** A service as an actor of `agentMachine`, for `agentMachine.provide({ actors })`. */
export type ServiceActor = CallbackActorLogic<ChartEvent, ServiceInput, Notice>;

export type ServiceActors = Readonly<Record<ServiceName, ServiceActor>>;

/** Options for running services as XState actors. */
export type LiveOptions = {
  /**
   * Stores the result of `actor.getPersistedSnapshot()`. Awaited before each model call, and between `tool.started`
   * and the call of the tool. Without it, a restored actor may run a call again.
   */
  persist?: (snapshot: JsonValue) => void | Promise<void>;
  /** Receives text and progress as they arrive; they do not pass through the machine. */
  onDelta?: (delta: Delta) => void;
  /** Time, ids and randomness. Default: `systemHost`. */
  host?: Host;
};

/** All services as actors of `agentMachine`. */
export function actorsOf(
  services: Readonly<Record<ServiceName, Service>>,
  options: LiveOptions = {},
): ServiceActors {
  return {
    modelTurn: actorOf(services.modelTurn, options, describeSetupFailure),
    toolBatch: actorOf(services.toolBatch, options),
    timer: actorOf(services.timer, options),
    finishers: actorOf(services.finishers, options),
  };
}

/**
 * Runs a service as an actor of the machine. The service reads the machine's current context rather than the actor's
 * input, which is outdated in a restored actor. `describe` turns an error into a report; `null` means a defect.
 */
function actorOf(
  service: Service,
  options: LiveOptions = {},
  describe: (error: unknown, host: Host) => Report | null = () => null,
): ServiceActor {
  return fromCallback(({ sendBack, input, self }) => {
    const stop = new Stop();
    const scope = makeScope(parentOf(self), sendBack, input, stop, options);
    void Promise.resolve()
      .then(() => service(scope))
      .catch(error => {
        if (isThrown(error, Stopped) || stop.isStopped) return;
        const report = describe(error, scope.host);
        if (report === null) reportDefect(error);
        else scope.report(report);
      });
    return () => stop.abort(new Stopped('The run has moved on.'));
  });
}

/** Fails the turn for an error in the app's setup: an actor has no caller to reject to. */
function describeSetupFailure(error: unknown, host: Host): Report | null {
  if (!(error instanceof EngineError)) return null;
  const { code, message } = error;
  return { type: 'turn.failed', error: { code, message }, retryable: false, startedAt: host.now() };
}

/** Raises an uncaught error: a service that rejects has a defect. */
function reportDefect(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}

/** An actor is not handed over. */
const NEVER = new AbortController().signal;

function makeScope(
  machine: AnyActorRef,
  sendBack: (event: ReportEvent) => void,
  input: ServiceInput,
  stop: Stop,
  { persist, onDelta, host = systemHost }: LiveOptions,
): ServiceScope {
  const assertDriving = () => {
    if (stop.isStopped) throw new Stopped('The run has moved on.');
  };
  const sendReport = (report: Report) => {
    const before = machine.getSnapshot();
    sendBack({ ...report, at: host.now(), generation: input.generation } as ReportEvent);
    return machine.getSnapshot() !== before;
  };
  return {
    host,
    stop,
    yielding: NEVER,
    until: input.until,
    context: () => machine.getSnapshot().context as Context,
    inherited: () => [],
    report: sendReport,
    async durable() {
      assertDriving();
      if (persist !== undefined) await persist(persistedSnapshot(machine));
      assertDriving();
    },
    assertDriving,
    publish: delta => onDelta?.(delta),
    blobs: null,
    recordLate: () => {},
    findLiveAttempt: async () => 'an attempt of an earlier process',
  };
}

function persistedSnapshot(machine: AnyActorRef): JsonValue {
  return JSON.parse(JSON.stringify(machine.getPersistedSnapshot?.() ?? null));
}

function parentOf(self: AnyActorRef): AnyActorRef {
  const parent = self._parent;
  if (parent === undefined)
    throw new Error('A service cannot run alone: pass it to agentMachine.provide({ actors }).');
  return parent;
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

/**
 * The `modelTurn` actor of `agentMachine`: calls `adapter` exactly once each time it is invoked.
 *
 * @example
 * const machine = agentMachine.provide({
 *   actors: { modelTurn: fromAdapter(model, { instructions: 'Be brief.' }) },
 * });
 */
export function fromAdapter(adapter: ModelAdapter, options: FromAdapterOptions = {}): ServiceActor {
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
  return actorOf(service, live, describeSetupFailure);
}
