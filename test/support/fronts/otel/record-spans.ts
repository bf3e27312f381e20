import { SpanKind } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  type ReadableSpan,
  type Sampler,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { RunSpan } from '../../../../fronts/otel/run-span.ts';
import { traceRun } from '../../../../fronts/otel/trace-run.ts';
import { omitUndefined } from '../../../../protocol/json.ts';
import type { Store } from '../../../../protocol/store.ts';

/** A provider of the SDK whose spans are kept in memory. */
export function recordSpans(sampler?: Sampler) {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new TracerProvider({
    spanProcessors: [new SimpleSpanProcessor({ exporter })],
    ...(sampler && { sampler }),
  });
  return { tracerProvider, spans: () => exporter.getFinishedSpans().map(toRunSpan) };
}

/** An exported span, in the shape of the projection. */
export function toRunSpan(span: ReadableSpan): RunSpan {
  const { traceId, spanId } = span.spanContext();
  const parentSpanId = span.parentSpanContext?.spanId;
  return {
    traceId,
    spanId,
    ...omitUndefined({ parentSpanId }),
    name: span.name,
    kind: span.kind === SpanKind.CLIENT ? 'client' : 'internal',
    start: toMs(span.startTime),
    end: toMs(span.endTime),
    attributes: { ...span.attributes } as RunSpan['attributes'],
    ...omitUndefined({ error: span.status.message }),
  };
}

const toMs = ([seconds, nanoseconds]: [number, number]) => seconds * 1_000 + nanoseconds / 1e6;

/** All spans of a run and of the runs below it, from its journal. */
export async function tracedAfterwards(store: Store, runId: string, options = {}): Promise<RunSpan[]> {
  const spans: RunSpan[] = [];
  for await (const span of traceRun(store, runId, options)) spans.push(span);
  return spans;
}

/** The spans by id, each without a twin. Throws for two spans with one id. */
export function byId(spans: readonly RunSpan[]): Record<string, RunSpan> {
  const found = new Map(spans.map(span => [span.spanId, span]));
  if (found.size !== spans.length) throw new Error('two spans have one id');
  return Object.fromEntries([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The tree of the spans, as indented names in the order of their starts. */
export function treeOf(spans: readonly RunSpan[]): string[] {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const below = (parent: string | undefined, depth: number): string[] =>
    spans
      .filter(span => span.parentSpanId === parent)
      .sort((a, b) => a.start - b.start)
      .flatMap(span => [`${'  '.repeat(depth)}${span.name}`, ...below(span.spanId, depth + 1)]);
  const strays = spans.filter(({ parentSpanId: id }) => id !== undefined && !ids.has(id));
  return [...below(undefined, 0), ...strays.map(({ name }) => `stray: ${name}`)];
}
