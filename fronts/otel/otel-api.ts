import type * as Api from '@opentelemetry/api';
import { EngineError } from '../../protocol/error.ts';

/** The API of OpenTelemetry. Its copies share one global registration, so any copy works. @internal */
export type OtelApi = typeof Api;

/** Loads the optional peer dependency `@opentelemetry/api`. Throws `agent-invalid` with how to install it. @internal */
export function loadApi(): OtelApi {
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
