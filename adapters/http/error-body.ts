import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { arrayOf, integerIn, nonEmpty, objectOf, objectsOf } from '../turn/json-access.ts';

/** The content of an error body, in one form for all providers. */
export type ErrorBody = {
  /** Empty when the body has no readable text. */
  message: string;
  /** Every code, type, status name and reason in the body, in lower case. */
  codes: string[];
  /** The HTTP status that the body names, for errors sent with status 200. */
  status: number | null;
  /** How long to wait before a retry, in ms. Gemini sends it only in the body. */
  retryAfterMs: number | null;
};

/**
 * Reads `{error: {message, type, code}}` (OpenAI, Groq, Azure, Anthropic with `type` next to it),
 * `{error: {code, status, details}}` (Gemini, also in an array), `{detail}` and `{message, type, code}`
 * (Mistral, OpenAI's `error` event), `{code, error: text}` (xAI), `{error: text}` (Ollama),
 * `{error: {metadata: {raw}}}` (OpenRouter), and plain text.
 */
export function readErrorBody(body: JsonValue): ErrorBody {
  if (Array.isArray(body)) return readErrorBody(body[0] ?? null);
  if (!isJsonObject(body)) {
    return {
      message: typeof body === 'string' ? body.trim() : '',
      codes: [],
      status: null,
      retryAfterMs: null,
    };
  }
  const inner = isJsonObject(body.error) ? body.error : body;
  return {
    message: messageIn(body, inner),
    codes: codesIn(body, inner),
    status: statusIn(inner) ?? statusIn(body),
    retryAfterMs: retryDelayIn(inner),
  };
}

function messageIn(body: JsonObject, inner: JsonObject): string {
  const message =
    nonEmpty(inner.message) ?? nonEmpty(body.error) ?? nonEmpty(body.detail) ?? nonEmpty(body.message) ?? '';
  const upstream = nonEmpty(objectOf(inner.metadata).raw);
  if (upstream) return message === '' ? upstream : `${message}: ${upstream}`;
  if (message !== '') return message;
  return [...arrayOf(body.detail), ...arrayOf(inner.message)]
    .map(entry => nonEmpty(objectOf(entry).msg) ?? nonEmpty(entry) ?? '')
    .filter(text => text !== '')
    .join('; ');
}

function codesIn(body: JsonObject, inner: JsonObject): string[] {
  const candidates = [
    inner.code,
    inner.type,
    inner.status,
    objectOf(inner.innererror).code,
    objectOf(inner.metadata).error_type,
    ...objectsOf(inner.details).map(detail => detail.reason),
    body.code,
    body.type,
  ];
  return [...new Set(candidates.flatMap(code => nonEmpty(code)?.toLowerCase() ?? []))];
}

function statusIn(source: JsonObject): number | null {
  const candidates = [source.status_code, source.code, source.status];
  for (const candidate of candidates) {
    const status = integerIn(candidate) ?? Number(nonEmpty(candidate) ?? Number.NaN);
    if (status >= 400 && status < 600) return status;
  }
  return null;
}

function retryDelayIn(inner: JsonObject): number | null {
  for (const detail of objectsOf(inner.details)) {
    const seconds = /^(\d+(?:\.\d+)?)s$/.exec(nonEmpty(detail.retryDelay) ?? '')?.[1];
    if (seconds !== undefined) return Math.round(Number(seconds) * 1_000);
  }
  return null;
}
