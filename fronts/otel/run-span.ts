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
