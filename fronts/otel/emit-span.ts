import type { Context, HrTime, Tracer } from '@opentelemetry/api';
import type { OtelApi, TracerProviderLike } from './otel-api.ts';
import type { RunSpan } from './run-span.ts';
import { spanIdOf } from './run-span.ts';

/** The members of the SDK's tracer that decide about ids and sampling; other tracers may lack them. */
type SdkTracer = Tracer & {
  _idGenerator?: { generateTraceId(): string; generateSpanId(): string };
  _sampler?: { shouldSample(context: Context, ...rest: unknown[]): unknown };
};

/** The SDK's tracer keeps the derived ids and samples by the trace id alone, so that all processes agree. */
export function makeEmitter(api: OtelApi, provider: TracerProviderLike): (span: RunSpan) => void {
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
