import { messageOf, ProviderError, type ProviderErrorCode } from '../../protocol/error.ts';
import { isJsonObject, type JsonValue } from '../../protocol/json.ts';
import {
  aborted,
  causesOf,
  errorFromBody,
  errorFromResponse,
  errorFromThrown,
  HttpFailure,
  malformedStream,
  type ProviderContext,
  unsupported,
} from '../http/provider-errors.ts';
import { showText } from '../http/redact-secrets.ts';
import { jsonIn, shorten } from '../turn/json-access.ts';
import { isErrorBody } from '../turn/single-turn.ts';

/** The SDK's errors without a response, by name: their classes may come from another copy of the SDK. */
const BY_NAME: ReadonlyMap<string, ProviderErrorCode> = new Map([
  ['AI_LoadAPIKeyError', 'key-missing'],
  ['AI_NoSuchModelError', 'model-unknown'],
  ['AI_LoadSettingError', 'invalid-request'],
  ['AI_InvalidArgumentError', 'invalid-request'],
  ['AI_InvalidPromptError', 'invalid-request'],
  ['AI_UnsupportedFunctionalityError', 'invalid-request'],
  ['AI_NoSuchProviderReferenceError', 'invalid-request'],
  ['InvalidFileURL', 'invalid-request'],
  ['AI_EmptyResponseBodyError', 'malformed-stream'],
  ['AI_InvalidResponseDataError', 'malformed-stream'],
  ['AI_JSONParseError', 'malformed-stream'],
  ['AI_NoContentGeneratedError', 'malformed-stream'],
  ['AI_TypeValidationError', 'malformed-stream'],
]);

/** Converts anything that a model threw or sent as a stream error to a `ProviderError`. */
export function errorFromModel(
  thrown: unknown,
  context: ProviderContext,
  signal: AbortSignal,
  now: number,
): ProviderError {
  if (thrown instanceof ProviderError) return thrown;
  if (signal.aborted) return aborted(context);
  const chain = causesOf(thrown).filter(link => link === thrown || link instanceof Error);
  if (chain.some(isInvalidURL)) {
    return unsupported('the base URL of the model is not a valid URL.', context, 'base-url-invalid');
  }
  for (const link of chain) {
    const found = errorFromReport(link, context, now) ?? errorFromName(link, context);
    if (found) return found;
  }
  return errorFromThrown(thrown, context, signal, now);
}

type Report = {
  statusCode?: unknown;
  responseHeaders?: unknown;
  responseBody?: unknown;
  data?: unknown;
};

function errorFromReport(link: unknown, context: ProviderContext, now: number): ProviderError | undefined {
  if (!(link instanceof Error)) return errorFromBody(bodyOf(link), context);
  const { statusCode, responseHeaders, responseBody, data } = link as Error & Report;
  const body = reportedBody(responseBody, data) ?? link.message;
  if (typeof statusCode !== 'number') {
    return isJsonObject(data) ? errorFromBody(bodyOf(data), context) : undefined;
  }
  if (statusCode >= 400) {
    return errorFromResponse(new HttpFailure(statusCode, headersOf(responseHeaders), body), context, now);
  }
  if (link.cause instanceof Error && !link.cause.name.startsWith('AI_')) return undefined;
  const raw = jsonIn(body);
  return raw !== undefined && isErrorBody(raw)
    ? errorFromBody(raw, context)
    : malformedStream(link.message, context, raw ?? shorten(body, 2_000));
}

function reportedBody(responseBody: unknown, data: unknown): string | undefined {
  if (typeof responseBody === 'string' && responseBody !== '') return responseBody;
  return data === undefined || data === null ? undefined : JSON.stringify(data);
}

function errorFromName(link: unknown, context: ProviderContext): ProviderError | undefined {
  const code = link instanceof Error ? BY_NAME.get(link.name) : undefined;
  return code && unsupported(showText(messageOf(link), 500, context.secrets), context, code);
}

function isInvalidURL(link: unknown): boolean {
  return link instanceof Error && 'code' in link && link.code === 'ERR_INVALID_URL';
}

function headersOf(headers: unknown): Headers {
  const named = Object.entries(Object(headers)).filter(([, value]) => typeof value === 'string');
  return new Headers(named.map(([name, value]) => [name, String(value)]));
}

function bodyOf(value: unknown): JsonValue {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return jsonIn(text ?? '') ?? text ?? null;
}
