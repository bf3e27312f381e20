import { DOCS_SITE } from './docs-site.ts';
import type { JsonValue } from './json.ts';

/** Every code of an `EngineError`, with its meaning. Codes are stable. */
export const ENGINE_ERRORS = {
  'agent-invalid': 'the agent configuration is invalid',
  'agent-module-invalid': 'the agent module cannot be loaded or does not export an agent',
  'input-invalid': 'the value does not have the expected type or format',
  'run-unknown': 'no run has this id',
  'run-exists': 'a run with this id already exists',
  'run-foreign': 'the run belongs to another agent, or lacks the labels that it was opened with',
  'run-ended': 'the run has ended; start a new one that continues it',
  'call-unknown': 'the run has no call with this id',
  'call-not-open': 'the call is not waiting for this command',
  'already-decided': 'the call has already been decided',
  'not-allowed': 'the call is not for this person to decide',
  'wrong-digest': 'the decision was made on a different call',
  expired: 'the decision came after the call expired',
  'already-happened': 'an earlier attempt of the call has already reported its result, late',
  'attempt-alive': 'an earlier attempt of the call may still be running',
  'inbox-full': 'the run has reached its limit of unread messages',
  'request-reused': 'the request id belongs to a request that asked for something else',
  refused: 'the run cannot accept this command in its current state',
  'result-missing': 'the store has only the head and the tail of this result',
  'chart-mismatch': 'the journal was written by another version of the chart',
  'state-unknown': 'the stored state does not exist in this chart',
  'journal-damaged': 'the journal cannot be read in full',
  'snapshot-outdated': 'the store has a later state of this run',
  'lease-held': 'another process drives this run',
  'lease-lost': 'another process took over this run',
  'store-unavailable': 'the store cannot be opened or written',
  'store-locked': 'the store is locked by another process',
  'store-full': 'the disk is full; runs stay resumable',
  'store-damaged': 'the store is not a database, or the database is damaged',
  'store-reply-lost': 'the store did not report whether it committed; read the run again',
  'store-replaced': 'the file of the store was deleted or replaced while it was open',
  'model-missing': 'no model is configured',
  'model-unknown': 'the model string names an unknown provider',
  'key-missing': 'the API key of the provider is missing',
  'base-url-invalid': 'the base URL of the provider is not a valid URL',
  'script-invalid': 'the scripted model file is not valid',
  'tool-source-failed': 'a tool server could not be reached',
  'sign-in-needed': 'a person has to sign in at a tool server',
  'sign-in-failed': 'a sign-in at a tool server failed; begin another one',
} as const;

export type EngineErrorCode = keyof typeof ENGINE_ERRORS;

/** Where a code is explained: the address of its page, or the command that prints it where no site is known. */
export function docsOf(code: string, site = DOCS_SITE): string {
  return site === undefined ? `agentchart docs ${code}` : `${site}/errors/${code}.html`;
}

/** An error of the engine. `message` names what was expected, what was received and what to do. Branch on `code`. */
export class EngineError extends Error {
  override readonly name = 'EngineError';
  readonly code: EngineErrorCode;
  readonly details: JsonValue;
  /** Where the code is explained, for people: a command or an address. Node prints it with an uncaught error. */
  readonly docs: string;

  constructor(
    code: EngineErrorCode,
    message: string,
    details: JsonValue = null,
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.code = code;
    this.details = details;
    this.docs = docsOf(code);
  }
}

/** The `input-invalid` error for input, or an option, that `message` describes. */
export function invalidInput(message: string): EngineError {
  return new EngineError('input-invalid', message);
}

export function invalidAgent(message: string): EngineError {
  return new EngineError('agent-invalid', message);
}

/** Codes for a process that is not set up for the provider: no request was sent. */
const SETUP_CODES = ['model-unknown', 'key-missing', 'base-url-invalid'] as const;
type SetupCode = (typeof SETUP_CODES)[number];

const CALL_CODES = [
  'authentication',
  'permission',
  'not-found',
  'invalid-request',
  'context-too-long',
  'content-filter',
  'rate-limit',
  'quota',
  'overloaded',
  'server',
  'timeout',
  'network',
  'redirect-refused',
  'malformed-stream',
  'response-too-large',
  'aborted',
  'script-exhausted',
  'unknown',
] as const;

export type ProviderErrorCode = SetupCode | (typeof CALL_CODES)[number];

/** Codes of a failed run whose model did answer. */
const ANSWER_CODES = ['output-invalid', 'answer-blocked'] as const;

export type AnswerErrorCode = (typeof ANSWER_CODES)[number];

/** Whether this is a code of the package. A failed run may have one of a foreign error. */
export function isErrorCode(code: string): code is EngineErrorCode | ProviderErrorCode | AnswerErrorCode {
  const others: readonly string[] = [...CALL_CODES, ...ANSWER_CODES];
  return Object.hasOwn(ENGINE_ERRORS, code) || others.includes(code);
}

export type ProviderErrorDetails = {
  code: ProviderErrorCode;
  /** The HTTP status; `null` without a response. */
  status: number | null;
  retryable: boolean;
  /** How long the provider asked to wait, in ms; `null` if it did not. */
  retryAfterMs: number | null;
  provider: string;
  model: string;
  /** The response body, for debugging; never contains a key. */
  raw: JsonValue;
};

/** A failed model call. The only error that adapters throw. */
export class ProviderError extends Error implements ProviderErrorDetails {
  override readonly name = 'ProviderError';
  readonly code: ProviderErrorCode;
  readonly status: number | null;
  readonly retryable: boolean;
  readonly retryAfterMs: number | null;
  readonly provider: string;
  readonly model: string;
  readonly raw: JsonValue;
  /** As that of an `EngineError`. */
  readonly docs: string;

  /** Details that are left out are `null`, and the error is not retryable. */
  constructor(
    message: string,
    details: Partial<ProviderErrorDetails> & Pick<ProviderErrorDetails, 'code' | 'provider' | 'model'>,
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.code = details.code;
    this.status = details.status ?? null;
    this.retryable = details.retryable ?? false;
    this.retryAfterMs = details.retryAfterMs ?? null;
    this.provider = details.provider;
    this.model = details.model;
    this.raw = details.raw ?? null;
    this.docs = docsOf(details.code);
  }
}

/** Returns an `EngineError` for a `ProviderError` whose code names a setup problem; otherwise `undefined`. */
export function setupError(error: unknown): EngineError | undefined {
  if (!isThrown(error, ProviderError)) return undefined;
  const { code, message, provider, model } = error;
  const known = SETUP_CODES.find(setUp => setUp === code);
  return known && new EngineError(known, message, { provider, model }, { cause: error });
}

/** Thrown by a tool that does not know whether its side effect happened. The call is reconciled or becomes in doubt. */
export class InDoubt extends Error {
  override readonly name = 'InDoubt';
}

const UNREADABLE = 'the thrown value has no readable message';

/** Returns the message of a thrown value. Never throws, even for `undefined`, proxies, and getters that throw. */
export function messageOf(thrown: unknown): string {
  if (thrown === undefined || thrown === null) return UNREADABLE;
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return UNREADABLE;
  }
}

/** `thrown instanceof kind`, also safe for a proxy that throws. */
export function isThrown<Kind>(
  thrown: unknown,
  kind: abstract new (...args: never[]) => Kind,
): thrown is Kind {
  try {
    return thrown instanceof kind;
  } catch {
    return false;
  }
}

/** Returns the `code` of an error, if it has one. Never throws. */
export function codeOf(thrown: unknown): string | undefined {
  try {
    return thrown instanceof Error && 'code' in thrown ? String(thrown.code) : undefined;
  } catch {
    return undefined;
  }
}
