/**
 * `agentchart/otel`: traces and metrics of runs, for OpenTelemetry. `fold-spans.ts` is the projection: the journal of a
 * run in, its spans out. `instrument.ts` feeds it while a process drives runs and gives the spans to a tracer;
 * `trace-run.ts` feeds it from the store afterwards, for `agentchart traces`, and `otlp.ts` posts the spans.
 */

export type { MeterProviderLike, TracerProviderLike } from './instrument.ts';
export { type InstrumentOptions, instrument } from './instrument.ts';
