/** A provider of tracers, as `@opentelemetry/api` describes it. */
export type TracerProviderLike = { getTracer(name: string): unknown };

/** A provider of meters, as `@opentelemetry/api` describes it. */
export type MeterProviderLike = { getMeter(name: string): unknown };
