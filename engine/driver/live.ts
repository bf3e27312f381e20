import { type AnyActorRef, type CallbackActorLogic, fromCallback } from 'xstate';
import type { Context } from '../../machines/context.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { Delta, Notice, ServiceInput, ServiceName } from '../../protocol/effect.ts';
import { EngineError, isThrown } from '../../protocol/error.ts';
import type { ChartEvent, ReportEvent } from '../../protocol/event.ts';
import { given, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { Settings } from '../../protocol/turn.ts';
import type { PrepareTurn } from '../definition.ts';
import { makeModelTurn } from '../services/model-turn.ts';
import { type Report, type Service, type ServiceScope, Stopped } from '../services/service.ts';
import { type Host, systemHost } from './host.ts';

/** A service as an actor of `agentMachine`: what `agentMachine.provide({ actors })` takes. */
export type ServiceActor = CallbackActorLogic<ChartEvent, ServiceInput, Notice>;

export type ServiceActors = Readonly<Record<ServiceName, ServiceActor>>;

export type LiveOptions = {
  /**
   * Stores what `actor.getPersistedSnapshot()` gives. Awaited after `tool.started` and before the
   * tool is called, and before each model call. Without it a restored actor may run a call again.
   */
  persist?: (snapshot: JsonValue) => void | Promise<void>;
  /** Text and progress as they come; they never pass through the machine. */
  onDelta?: (delta: Delta) => void;
  host?: Host;
};

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
 * Runs a service inside an ordinary actor of the machine. It reads the machine's current context, not
 * the input it was started with: a restored actor is started with the input of long ago.
 */
export function actorOf(
  service: Service,
  options: LiveOptions = {},
  describe: (error: unknown, host: Host) => Report | null = () => null,
): ServiceActor {
  return fromCallback(({ sendBack, input, self }) => {
    const abort = new AbortController();
    const scope = makeScope(parentOf(self), sendBack, input, abort.signal, options);
    void Promise.resolve()
      .then(() => service(scope))
      .catch(error => {
        if (isThrown(error, Stopped) || abort.signal.aborted) return;
        const report = describe(error, scope.host);
        if (report === null) reportDefect(error);
        else scope.report(report);
      });
    return () => abort.abort(new Stopped('The run has moved on.'));
  });
}

/** An actor has nobody to reject to: what is wrong with the app's setup fails the turn. */
export function describeSetupFailure(error: unknown, host: Host): Report | null {
  if (!(error instanceof EngineError)) return null;
  const { code, message } = error;
  return { type: 'turn.failed', error: { code, message }, retryable: false, startedAt: host.now() };
}

/** A service never rejects but for a defect: in an app that belongs to its uncaught errors, not to silence. */
function reportDefect(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}

function makeScope(
  machine: AnyActorRef,
  sendBack: (event: ReportEvent) => void,
  input: ServiceInput,
  signal: AbortSignal,
  { persist, onDelta, host = systemHost }: LiveOptions,
): ServiceScope {
  const assertDriving = () => {
    if (signal.aborted) throw new Stopped('This work is not wanted any more.');
  };
  return {
    host,
    signal,
    until: input.until,
    context: () => machine.getSnapshot().context as Context,
    inherited: () => [],
    report(report) {
      const before = machine.getSnapshot();
      sendBack({ ...report, at: host.now(), generation: input.generation } as ReportEvent);
      return machine.getSnapshot() !== before;
    },
    async durable() {
      assertDriving();
      if (persist !== undefined) await persist(persistedSnapshot(machine));
      assertDriving();
    },
    assertDriving,
    publish: delta => onDelta?.(delta),
    blobs: null,
    recordLate: () => {},
    findLiveAttempt: async () => 'an attempt in an earlier process',
  };
}

function persistedSnapshot(machine: AnyActorRef): JsonValue {
  return JSON.parse(JSON.stringify(machine.getPersistedSnapshot?.() ?? null));
}

function parentOf(self: AnyActorRef): AnyActorRef {
  const parent = self._parent;
  if (parent === undefined) throw new Error('A service is an actor of agentMachine and does not run alone.');
  return parent;
}

export type FromAdapterOptions = LiveOptions & {
  instructions?: string;
  /** Tools the model is told of; what runs them is the `toolBatch` actor. */
  tools?: readonly Tool[];
  settings?: Settings;
  providerOptions?: JsonObject;
  prepareTurn?: PrepareTurn;
};

/** The machine's `modelTurn` alone: exactly one call of `adapter` each time it is invoked. */
export function fromAdapter(adapter: ModelAdapter, options: FromAdapterOptions = {}): ServiceActor {
  const { instructions, tools = [], settings = {}, providerOptions, prepareTurn, ...live } = options;
  const byName: ReadonlyMap<string, Tool> = new Map(tools.map(tool => [tool.name, tool]));
  const service = makeModelTurn({
    models: [adapter],
    connectTools: () => Promise.resolve(byName),
    settings,
    textFilters: [],
    retry: { attempts: 3, baseMs: 500, maxMs: 30_000 },
    ...given({ instructions, providerOptions, prepareTurn }),
  });
  return actorOf(service, live, describeSetupFailure);
}
