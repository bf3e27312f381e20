import type * as Api from '@opentelemetry/api';
import type {
  Context,
  Histogram,
  HrTime,
  Meter,
  Attributes as MetricAttributes,
  Tracer,
} from '@opentelemetry/api';
import { type Agent, createAgent } from '../../agent/agent.ts';
import type { DriveWatcher, ModelCall, WatchedCall, WatchedDrive } from '../../engine/events/watch-drive.ts';
import { readPages } from '../../engine/journal/read-journal.ts';
import { countFollowedRuns, countWaits } from '../../engine/listening/feed-follower.ts';
import type { RunHappening } from '../../engine/run/run.ts';
import { EngineError } from '../../protocol/error.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import type { Store } from '../../protocol/store.ts';
import type { AgentTool, Tool } from '../../protocol/tool.ts';
import { providerName, SpanFold, type TracePlace } from './fold-spans.ts';
import { placeOfCall, placeOfTurn, type RunSpan, spanIdOf, traceparentOf } from './run-span.ts';
import { locateTrace } from './trace-run.ts';

/** The options of `instrument`. */
export type InstrumentOptions = {
  /** Where spans go. Default: the provider that is registered globally. */
  tracerProvider?: TracerProviderLike;
  /** Where metrics go. Default: the provider that is registered globally. */
  meterProvider?: MeterProviderLike;
  /**
   * Whether spans have content: instructions, messages, arguments, results, error messages and the names of those who decide. Default
   * `false`.
   */
  content?: boolean;
};

const NAMES: NamesOf<InstrumentOptions> = { tracerProvider: true, meterProvider: true, content: true };

/**
 * Returns the agent to use: its runs, and those of its sub-agents, are traced and measured while this process drives
 * them. All runs below one run share a trace, over pauses and processes; ids are derived from the run, so that
 * `agentchart traces` gives the same spans afterwards. Exporting never fails a run. Throws `agent-invalid` without the
 * package `@opentelemetry/api`.
 *
 * @example
 * const agent = instrument(createAgent({ name, model, tools }), { tracerProvider });
 * await agent.run('Refund order A-1001');
 */
export function instrument<Instrumented extends Agent>(
  agent: Instrumented,
  options: InstrumentOptions = {},
): Instrumented {
  refuseUnknownOptions('instrument', options, NAMES);
  const api = loadApi();
  const emitSpan = makeEmitter(api, options.tracerProvider ?? api.trace.getTracerProvider());
  const meters = options.meterProvider ?? api.metrics.getMeterProvider();
  const meter = meters.getMeter('agentchart') as Meter;
  const measure = makeSpanMetrics(meter);
  const chunks = new ChunkMetrics(meter);
  addStoreMetrics(meter, agent.store);
  const drives = new Map<string, { place: Promise<TracePlace>; live: LiveDrive }>();
  const emit = (span: RunSpan) => {
    emitSpan(span);
    measure(span);
  };
  const activate: Activate = async (runId, at) => {
    const place = await drives.get(runId)?.place.catch(() => undefined);
    if (place === undefined) return undefined;
    const span = { traceId: place.traceId, spanId: spanIdOf(runId, at) };
    const spanContext = { ...span, traceFlags: api.TraceFlags.SAMPLED };
    return { span, within: api.trace.setSpanContext(api.context.active(), spanContext) };
  };
  const watcher: DriveWatcher = {
    begin({ runId, epoch, store }) {
      const place = locateTrace(store, runId);
      const live = new LiveDrive({ runId, epoch, store, place, content: options.content === true, emit });
      drives.set(runId, { place, live });
      return {
        receive: happening => live.receive(happening),
        end: async () => {
          await live.end();
          if (drives.get(runId)?.live === live) drives.delete(runId);
        },
      };
    },
    chunk: call => chunks.take(call),
    aroundModelCall: async (call, work) => {
      drives.get(call.runId)?.live.beginModelCall(call);
      chunks.begin(call);
      // Spans that the adapter or its HTTP client start are children of the `chat` span.
      const active = await activate(call.runId, placeOfTurn(call));
      return await (active === undefined ? work() : api.context.with(active.within, work));
    },
  };
  return instrumentAll(agent, watcher, tool => traceTool(api, tool, activate)) as Instrumented;
}

/** Instruments an agent and its sub-agents; an agent that occurs several times stays one agent. */
function instrumentAll(
  agent: Agent,
  watcher: DriveWatcher,
  wrap: (tool: AgentTool) => AgentTool,
  known = new Map<object, Agent>(),
): Agent {
  const before = known.get(agent);
  if (before !== undefined) return before;
  const { options, store } = agent;
  const tools = options.tools?.map(tool => {
    if (!('subAgent' in tool) || tool.subAgent === undefined) return wrap(tool);
    return { ...tool, subAgent: instrumentAll(tool.subAgent as Agent, watcher, wrap, known) };
  });
  const watchers = [...(options.watchers ?? []), watcher];
  const instrumented = createAgent({ ...options, store, watchers, ...(tools && { tools }) });
  known.set(agent, instrumented as Agent);
  return instrumented as Agent;
}

type LiveDriveOptions = {
  runId: string;
  /** The epoch of the claim under which this process drives; `null` if it ended the run while no process drove it. */
  epoch: number | null;
  store: Store;
  place: Promise<TracePlace>;
  content: boolean;
  emit(span: RunSpan): void;
};

/**
 * Emits the spans of a run while this process drives it: each once its last entry is durable.
 *
 * L1 A span is emitted by the process that drives when it ends. Spans that inputs ended while no process drove, and those
 *    that the death of the previous process cut short, are emitted by the next driver, or by the process that ended the
 *    run without driving it. The previous driver emitted everything up to the last report before that.
 * L2 Entries are folded once, in order; missed entries are read from the store.
 */
class LiveDrive implements WatchedDrive {
  readonly #options: LiveDriveOptions;
  readonly #fold: Promise<SpanFold>;
  readonly #instructions = new Map<string, string>();
  #received: JournalEntry[] = [];
  #seq = 0;
  #isOurs = false;
  #before: RunSpan[] = [];
  #work: Promise<void> = Promise.resolve();

  constructor(options: LiveDriveOptions) {
    this.#options = options;
    this.#fold = options.place.then(
      place => new SpanFold(place, { content: options.content, instructions: this.#instructions }),
    );
    this.#pump();
  }

  beginModelCall({
    instructions,
    ...call
  }: Omit<ModelCall, 'runId'> & { instructions?: string | undefined }): void {
    if (this.#options.content && instructions !== undefined)
      this.#instructions.set(placeOfTurn(call), instructions);
  }

  receive(happening: RunHappening): void {
    if (!('seq' in happening)) return;
    const { seq, ...event } = happening;
    this.#received.push({ seq, event });
    this.#pump();
  }

  async end(): Promise<void> {
    this.#pump();
    await this.#work;
    if (this.#options.epoch === null) this.#emit(this.#before.splice(0));
  }

  #pump(): void {
    this.#work = this.#work.then(() => this.#takeReceived()).catch(() => {});
  }

  async #takeReceived(): Promise<void> {
    const fold = await this.#fold;
    const received = this.#received;
    this.#received = [];
    const first = received[0]?.seq;
    if (this.#seq === 0 || (first !== undefined && first > this.#seq + 1)) await this.#catchUp(fold);
    for (const entry of received) this.#take(fold, entry);
  }

  async #catchUp(fold: SpanFold): Promise<void> {
    const { store, runId } = this.#options;
    for await (const page of readPages(store, runId, this.#seq))
      for (const entry of page) this.#take(fold, entry);
  }

  #take(fold: SpanFold, entry: JournalEntry): void {
    if (entry.seq !== this.#seq + 1) return;
    this.#seq = entry.seq;
    const spans = fold.take(entry);
    if (this.#isOurs) return this.#emit(spans);
    this.#before.push(...spans);
    const { event } = entry;
    if ('generation' in event) this.#before = [];
    if (event.type !== 'run.claimed' || event.epoch !== this.#options.epoch) return;
    this.#isOurs = true;
    this.#emit(this.#before);
    this.#before = [];
  }

  #emit(spans: readonly RunSpan[]): void {
    for (const span of spans) this.#options.emit(span);
  }
}

/** The span at a place of a run, and the context in which it is active; `undefined` if this process does not drive it. */
type Activate = (
  runId: string,
  at: string,
) => Promise<{ span: { traceId: string; spanId: string }; within: Context } | undefined>;

/** Its functions run within their `execute_tool` span, and get its trace context, which `mcp()` passes on. */
function traceTool(api: OtelApi, tool: AgentTool, activate: Activate): AgentTool {
  if (!('connect' in tool)) return traceFunctions(api, tool, activate);
  const { name } = tool as { name?: unknown };
  return {
    ...omitUndefined({ name }),
    connect: async () => (await tool.connect()).map(own => traceFunctions(api, own, activate)),
    close: () => tool.close(),
  };
}

function traceFunctions({ context, propagation }: OtelApi, tool: Tool, activate: Activate): Tool {
  const { run } = tool;
  if (run === undefined || tool.subAgent !== undefined) return tool;
  return {
    ...tool,
    run: async (input, call) => {
      const active = await activate(call.runId, placeOfCall(call.callId, call.attempt ?? 1));
      if (active === undefined) return await run.call(tool, input, call);
      const carrier: Record<string, string> = {};
      propagation.inject(active.within, carrier);
      const { tracestate, baggage } = carrier;
      const trace = { traceparent: traceparentOf(active.span), ...omitUndefined({ tracestate, baggage }) };
      return await context.with(active.within, async () => await run.call(tool, input, { ...call, trace }));
    },
  };
}

/** The members of the SDK's tracer that decide about ids and sampling; other tracers may lack them. */
type SdkTracer = Tracer & {
  _idGenerator?: { generateTraceId(): string; generateSpanId(): string };
  _sampler?: { shouldSample(context: Context, ...rest: unknown[]): unknown };
};

/** The SDK's tracer keeps the derived ids and samples by the trace id alone, so that all processes agree. */
function makeEmitter(api: OtelApi, provider: TracerProviderLike): (span: RunSpan) => void {
  const { SpanKind, SpanStatusCode } = api;
  const tracer: SdkTracer = tracerOf(provider);
  const kinds = { internal: SpanKind.INTERNAL, client: SpanKind.CLIENT };
  return span => {
    const chosen = withIds(api, tracer, span);
    const started = chosen.startSpan(
      span.name,
      { kind: kinds[span.kind], startTime: toHrTime(span.start), attributes: span.attributes },
      parentContext(api, span, chosen !== tracer),
    );
    if (span.error !== undefined) started.setStatus({ code: SpanStatusCode.ERROR, message: span.error });
    started.end(toHrTime(span.end));
  };
}

/** The global provider hands out proxies; the tracer behind one exists once an SDK is registered. */
function tracerOf(provider: TracerProviderLike): Tracer {
  const proxied = provider as { getDelegateTracer?(name: string): Tracer | undefined };
  return proxied.getDelegateTracer?.('agentchart') ?? (provider.getTracer('agentchart') as Tracer);
}

function withIds({ ROOT_CONTEXT }: OtelApi, tracer: SdkTracer, { traceId, spanId }: RunSpan): Tracer {
  const { _idGenerator: own, _sampler: sampler } = tracer;
  if (own === undefined) return tracer;
  const ids = { generateTraceId: () => traceId, generateSpanId: () => spanId };
  const asRoot = sampler && {
    shouldSample: (_: Context, ...rest: unknown[]) => sampler.shouldSample(ROOT_CONTEXT, ...rest),
  };
  return Object.create(tracer, {
    _idGenerator: { value: ids },
    ...(asRoot !== undefined && { _sampler: { value: asRoot } }),
  });
}

function parentContext(
  { ROOT_CONTEXT, trace, TraceFlags }: OtelApi,
  { traceId, parentSpanId }: RunSpan,
  hasOwnIds: boolean,
): Context {
  if (parentSpanId === undefined && hasOwnIds) return ROOT_CONTEXT;
  const spanId = parentSpanId ?? spanIdOf(traceId, 'root');
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED });
}

/** Seconds and nanoseconds: a plain number may be taken for a time since the start of the process. */
function toHrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000);
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)];
}

/** Bucket boundaries of the GenAI conventions, in seconds. */
const AGENT_SECONDS = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
const CALL_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/** The labels of a metric: few values each, and nothing that a model, a user or a tool wrote. */
const LABELS = {
  invoke_agent: ['gen_ai.operation.name', 'gen_ai.agent.name', 'error.type'],
  calls: ['gen_ai.agent.name'],
  chat: [
    'gen_ai.operation.name',
    'gen_ai.provider.name',
    'gen_ai.request.model',
    'gen_ai.response.model',
    'error.type',
  ],
  tokens: ['gen_ai.operation.name', 'gen_ai.provider.name', 'gen_ai.request.model', 'gen_ai.response.model'],
  execute_tool: ['gen_ai.tool.name', 'gen_ai.tool.type', 'gen_ai.agent.name', 'error.type'],
} as const;

/** No provider says how its counts divide into text, images and audio in the same way. */
const ANY_MODALITY = { 'gen_ai.token.modality': 'unknown' };

function makeSpanMetrics(meter: Meter): (span: RunSpan) => void {
  const seconds = (name: string, boundaries: number[]) =>
    meter.createHistogram(name, { unit: 's', advice: { explicitBucketBoundaries: boundaries } });
  const agentDuration = seconds('gen_ai.invoke_agent.duration', AGENT_SECONDS);
  const modelDuration = seconds('gen_ai.client.inference.duration', CALL_SECONDS);
  const toolDuration = seconds('gen_ai.execute_tool.duration', CALL_SECONDS);
  const modelCalls = meter.createHistogram('gen_ai.invoke_agent.inference_calls', {
    unit: '{inference_call}',
  });
  const toolCalls = meter.createHistogram('gen_ai.invoke_agent.tool_calls', { unit: '{tool_call}' });
  const waits = meter.createHistogram('agentchart.wait.duration', { unit: 's' });
  const tokens = ['input', 'output', 'cache_read.input', 'cache_write.input', 'reasoning.output'].map(
    kind => ({
      attribute: `gen_ai.usage.${kind}_tokens`,
      counter: meter.createCounter(`gen_ai.client.inference.usage.${kind}_tokens`, { unit: '{token}' }),
    }),
  );
  return span => {
    const { attributes, start, end } = span;
    const duration = (end - start) / 1_000;
    switch (attributes['gen_ai.operation.name']) {
      case 'invoke_agent': {
        const labels = pick(span, LABELS.calls);
        agentDuration.record(duration, pick(span, LABELS.invoke_agent));
        modelCalls.record(Number(attributes['agentchart.model_calls']), labels);
        toolCalls.record(Number(attributes['agentchart.tool_calls']), labels);
        return;
      }
      case 'execute_tool':
        return toolDuration.record(duration, pick(span, LABELS.execute_tool));
      case 'chat': {
        modelDuration.record(duration, pick(span, LABELS.chat));
        const labels = { ...pick(span, LABELS.tokens), ...ANY_MODALITY };
        // Each is counted for each call, as 0 if the provider did not report it.
        for (const { attribute, counter } of tokens) {
          const used = attributes['agentchart.usage.estimated'] === true ? undefined : attributes[attribute];
          counter.add(Number(used ?? 0), labels);
        }
        return;
      }
      default:
        if (span.name === 'agentchart.wait')
          waits.record(duration, pick(span, ['agentchart.wait.for', 'agentchart.wait.outcome']));
    }
  };
}

/** The times of the pieces of streamed calls, in this process. */
class ChunkMetrics {
  readonly #first: Histogram;
  readonly #later: Histogram;
  /** When each call began, or its latest piece came, in ms. */
  readonly #since = new WeakMap<WatchedCall, { at: number; isFirst: boolean }>();

  constructor(meter: Meter) {
    const seconds = (name: string) =>
      meter.createHistogram(`gen_ai.client.inference.${name}`, {
        unit: 's',
        advice: { explicitBucketBoundaries: CALL_SECONDS },
      });
    this.#first = seconds('time_to_first_chunk');
    this.#later = seconds('time_per_output_chunk');
  }

  begin(call: WatchedCall): void {
    this.#since.set(call, { at: performance.now(), isFirst: true });
  }

  take(call: WatchedCall): void {
    const since = this.#since.get(call);
    if (since === undefined) return;
    const at = performance.now();
    const { provider, model } = call.adapter;
    (since.isFirst ? this.#first : this.#later).record((at - since.at) / 1_000, {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': providerName(provider),
      'gen_ai.request.model': model,
    });
    this.#since.set(call, { at, isFirst: false });
  }
}

function pick({ attributes }: RunSpan, names: readonly string[]): MetricAttributes {
  return Object.fromEntries(
    names.flatMap(name => (attributes[name] === undefined ? [] : [[name, attributes[name]]])),
  );
}

/** Adds gauges of the runs of a store by status, and of the calls that wait; they are read when metrics are collected. */
function addStoreMetrics(meter: Meter, store: Store): void {
  meter.createObservableGauge('agentchart.runs', { unit: '{run}' }).addCallback(async result => {
    for (const [status, count] of Object.entries(await countFollowedRuns(store)))
      result.observe(count, { 'agentchart.run.status': status });
  });
  meter
    .createObservableGauge('agentchart.decisions.waiting', { unit: '{call}' })
    .addCallback(async result => {
      for (const [type, count] of Object.entries(await countWaits(store)))
        result.observe(count, { 'agentchart.wait.for': type });
    });
}

/** The API of OpenTelemetry. Its copies share one global registration, so any copy works. @internal */
type OtelApi = typeof Api;

/** Loads the optional peer dependency `@opentelemetry/api`. Throws `agent-invalid` with how to install it. @internal */
function loadApi(): OtelApi {
  try {
    return process.getBuiltinModule('node:module').createRequire(import.meta.url)('@opentelemetry/api');
  } catch (cause) {
    throw new EngineError(
      'agent-invalid',
      'agentchart/otel needs the package @opentelemetry/api. Install it with: npm install @opentelemetry/api',
      null,
      { cause },
    );
  }
}

/** A provider of tracers, as `@opentelemetry/api` describes it. */
export type TracerProviderLike = { getTracer(name: string): unknown };

/** A provider of meters, as `@opentelemetry/api` describes it. */
export type MeterProviderLike = { getMeter(name: string): unknown };
