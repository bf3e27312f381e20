import type { ModelCall } from '../../engine/events/watch-drive.ts';
import { hashText } from '../../protocol/content/hash-text.ts';

/** The value of an attribute, as both the OpenTelemetry API and OTLP accept it. */
export type AttributeValue = string | number | boolean | string[];

export type Attributes = { [name: string]: AttributeValue };

/** A span of a run, complete, without a tracer. Times are in ms since the epoch. */
export type RunSpan = {
  traceId: string;
  spanId: string;
  /** Absent for the root of the trace. */
  parentSpanId?: string;
  name: string;
  kind: 'internal' | 'client';
  start: number;
  end: number;
  attributes: Attributes;
  /** Present if the operation failed: a code or, with content, a message. */
  error?: string;
};

/** The trace of a run and of all runs below it, as 32 hex digits. `rootId` is the id of the topmost run. */
export function traceIdOf(rootId: string): string {
  return hashText(`agentchart:trace:${rootId}`).slice(0, 32);
}

/** The span at a place of a run, as 16 hex digits. Every process derives the same id from the same journal. */
export function spanIdOf(runId: string, place: string): string {
  return hashText(`agentchart:span:${runId}:${place}`).slice(0, 16);
}

export function placeOfCall(callId: string, attempt: number): string {
  return `call:${attempt}:${callId}`;
}

export function placeOfTurn({ turn, model, attempt }: Omit<ModelCall, 'runId'>): string {
  return `turn:${turn}:${model}:${attempt}`;
}

export function traceparentOf({ traceId, spanId }: { traceId: string; spanId: string }): string {
  return `00-${traceId}-${spanId}-01`;
}
