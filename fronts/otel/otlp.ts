import * as z from 'zod/mini';
import { backOffMs } from '../../protocol/back-off.ts';
import { messageOf } from '../../protocol/error.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { AttributeValue, RunSpan } from './run-span.ts';

/**
 * Spans over OTLP, HTTP with JSON: ids are hex, times are decimal texts of nanoseconds.
 * Source: https://opentelemetry.io/docs/specs/otlp/
 */

const KINDS = { internal: 1, client: 3 } as const;
const FAILED = 2;
const SAMPLED = 1;

const BATCH = 200;

const ATTEMPTS = 4;
const BACK_OFF = { baseMs: 500, maxMs: 30_000 };
const REQUEST_MS = 10_000;

const RETRYABLE = [429, 502, 503, 504];

export type OtlpOptions = {
  url: string;
  headers?: Readonly<Record<string, string>>;
  service: string;
  version: string;
  fetch?: typeof fetch;
  sleep(ms: number): Promise<void>;
};

/** Posts the spans. Returns their number. Throws an `Error` with the receiver's answer. */
export async function postSpans(spans: AsyncIterable<RunSpan>, options: OtlpOptions): Promise<number> {
  let batch: RunSpan[] = [];
  let count = 0;
  for await (const span of spans) {
    count += 1;
    batch.push(span);
    if (batch.length < BATCH) continue;
    await post(batch, options);
    batch = [];
  }
  if (batch.length > 0) await post(batch, options);
  return count;
}

export function toOtlp(
  spans: readonly RunSpan[],
  { service, version }: Pick<OtlpOptions, 'service' | 'version'>,
): JsonObject {
  const resource = { attributes: toAttributes({ 'service.name': service }) };
  const scope = { name: 'agentchart', version };
  return { resourceSpans: [{ resource, scopeSpans: [{ scope, spans: spans.map(toSpan) }] }] };
}

function toSpan({ parentSpanId, start, end, kind, attributes, error, ...span }: RunSpan): JsonObject {
  return {
    ...span,
    ...omitUndefined({ parentSpanId }),
    flags: SAMPLED,
    kind: KINDS[kind],
    startTimeUnixNano: toNanoseconds(start),
    endTimeUnixNano: toNanoseconds(end),
    attributes: toAttributes(attributes),
    status: error === undefined ? {} : { code: FAILED, message: error },
  };
}

function toNanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms * 1_000)) * 1_000n);
}

function toAttributes(attributes: Readonly<Record<string, AttributeValue>>): JsonObject[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: toValue(value) }));
}

function toValue(value: AttributeValue): JsonObject {
  switch (typeof value) {
    case 'string':
      return { stringValue: value };
    case 'boolean':
      return { boolValue: value };
    case 'number':
      return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
    default:
      return { arrayValue: { values: value.map(toValue) } };
  }
}

const answerSchema = z.object({
  partialSuccess: z.optional(
    z.object({ rejectedSpans: z.optional(z.coerce.number()), errorMessage: z.optional(z.string()) }),
  ),
});

async function post(spans: readonly RunSpan[], options: OtlpOptions): Promise<void> {
  const url = tracesUrl(options.url);
  const body = JSON.stringify(toOtlp(spans, options));
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await send(url, body, options);
    if (outcome.type === 'accepted') return;
    if (outcome.type === 'refused' || attempt === ATTEMPTS) throw new Error(outcome.message);
    const pause = outcome.retryAfterMs ?? backOffMs(attempt, BACK_OFF);
    await options.sleep(Math.min(pause, BACK_OFF.maxMs));
  }
}

/** The address of the signal below the receiver's. Throws a `TypeError` for an invalid URL. */
export function tracesUrl(base: string): string {
  const url = new URL(base);
  const path = url.pathname.replace(/\/$/, '');
  url.pathname = path.endsWith('/v1/traces') ? path : `${path}/v1/traces`;
  return url.href;
}

type Sent =
  | { type: 'accepted' }
  | { type: 'refused'; message: string }
  | { type: 'unavailable'; message: string; retryAfterMs?: number };

async function send(url: string, body: string, options: OtlpOptions): Promise<Sent> {
  const { headers, fetch: ask = fetch } = options;
  try {
    const answer = await ask(url, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json' },
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    const text = (await answer.text()).slice(0, 2_000);
    if (answer.ok) return readAccepted(text);
    const message = `The receiver at ${url} answered ${answer.status}: ${text.slice(0, 300)}`;
    if (!RETRYABLE.includes(answer.status)) return { type: 'refused', message };
    const seconds = Number(answer.headers.get('retry-after') ?? Number.NaN);
    return { type: 'unavailable', message, ...(seconds >= 0 && { retryAfterMs: seconds * 1_000 }) };
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    return { type: 'unavailable', message: `No answer from ${url}: ${messageOf(cause)}` };
  }
}

function readAccepted(text: string): Sent {
  const { partialSuccess } = readAnswer(text);
  const rejected = partialSuccess?.rejectedSpans ?? 0;
  if (rejected === 0) return { type: 'accepted' };
  return {
    type: 'refused',
    message: `The receiver rejected ${rejected} spans: ${partialSuccess?.errorMessage ?? 'no reason given'}`,
  };
}

/** A receiver may answer without a body or without JSON: the status is enough. */
function readAnswer(text: string): z.infer<typeof answerSchema> {
  try {
    return answerSchema.safeParse(JSON.parse(text)).data ?? {};
  } catch {
    return {};
  }
}
