import type { JsonValue } from './json.ts';

/** Every code an `EngineError` can carry, with what it means. Codes are stable. */
export const ENGINE_ERRORS = {
  'agent-invalid': 'the agent is configured in a way that cannot work',
  'agent-module-invalid': 'the agent module does not load, or does not export an agent',
  'input-invalid': 'the value from outside is not what was asked for',
  'run-unknown': 'no run has this id',
  'run-exists': 'a run with this id exists already',
  'run-foreign': 'the run belongs to another agent',
  'run-ended': 'the run has ended; start a new one that continues it',
  'call-unknown': 'the run has no call with this id',
  'call-not-open': 'the call does not wait for this',
  'already-decided': 'somebody decided this call before',
  'wrong-digest': 'the call is not the one that was decided on',
  expired: 'the decision came after the call expired',
  'already-happened': 'an earlier attempt of the call has given its result, late',
  'attempt-alive': 'an earlier attempt of the call may still act',
  'inbox-full': 'the run has as many unread messages as it may have',
  refused: 'the run does not take this now',
  'result-missing': 'the store has only the head and the tail of this result',
  'chart-mismatch': 'the journal was written by another version of the chart',
  'state-unknown': 'the stored state does not exist in this chart',
  'journal-damaged': 'the journal cannot be read in full',
  'snapshot-outdated': 'the store knows a later state of this run',
  'lease-held': 'another process drives this run',
  'lease-lost': 'another process took this run over',
  'store-unavailable': 'the store cannot be opened or written',
  'store-locked': 'the store is locked by another process',
  'store-full': 'the disk has no room for what the store writes; the runs stay resumable',
  'store-damaged': 'the store is not a database, or a damaged one',
  'store-reply-lost': 'the store did not say whether it committed; read the run again',
  'store-replaced': 'the file of the store was deleted or replaced while it was open',
  'model-missing': 'no model is configured',
  'model-unknown': 'the model string names no provider that is known',
  'key-missing': 'the provider needs a key',
  'base-url-invalid': 'the base URL of the provider is not one',
  'script-invalid': 'the scripted model file is not valid',
  'tool-source-failed': 'a tool server could not be reached',
} as const;

export type EngineErrorCode = keyof typeof ENGINE_ERRORS;

/** An error of the engine: `message` says what was expected, what came and what to do. Branch on `code`. */
export class EngineError extends Error {
  override readonly name = 'EngineError';
  readonly code: EngineErrorCode;
  readonly details: JsonValue;

  constructor(
    code: EngineErrorCode,
    message: string,
    details: JsonValue = null,
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.code = code;
    this.details = details;
  }
}

/** What is wrong with this process and not with the call: nothing was sent. */
const SETUP_CODES = ['model-unknown', 'key-missing', 'base-url-invalid'] as const;
type SetupCode = (typeof SETUP_CODES)[number];

export type ProviderErrorCode =
  | SetupCode
  | 'authentication'
  | 'permission'
  | 'not-found'
  | 'invalid-request'
  | 'context-too-long'
  | 'content-filter'
  | 'rate-limit'
  | 'quota'
  | 'overloaded'
  | 'server'
  | 'timeout'
  | 'network'
  | 'redirect-refused'
  | 'malformed-stream'
  | 'response-too-large'
  | 'aborted'
  | 'script-exhausted'
  | 'unknown';

export type ProviderErrorDetails = {
  code: ProviderErrorCode;
  /** HTTP status, or `null` when none came. */
  status: number | null;
  retryable: boolean;
  /** How long the provider asked to wait, in ms; `null` when it did not say. */
  retryAfterMs: number | null;
  provider: string;
  model: string;
  /** The body as it came, for the developer; never a key. */
  raw: JsonValue;
};

/** A model call that failed. Adapters throw nothing else. */
export class ProviderError extends Error implements ProviderErrorDetails {
  override readonly name = 'ProviderError';
  readonly code: ProviderErrorCode;
  readonly status: number | null;
  readonly retryable: boolean;
  readonly retryAfterMs: number | null;
  readonly provider: string;
  readonly model: string;
  readonly raw: JsonValue;

  constructor(message: string, details: ProviderErrorDetails, options?: { cause?: unknown }) {
    super(message, options);
    this.code = details.code;
    this.status = details.status;
    this.retryable = details.retryable;
    this.retryAfterMs = details.retryAfterMs;
    this.provider = details.provider;
    this.model = details.model;
    this.raw = details.raw;
  }
}

/** The engine's own error for a `ProviderError` that says this process is not set up; `undefined` for any other. */
export function setupError(error: unknown): EngineError | undefined {
  if (!isThrown(error, ProviderError)) return undefined;
  const { code, message, provider, model } = error;
  const known = SETUP_CODES.find(setUp => setUp === code);
  return known && new EngineError(known, message, { provider, model }, { cause: error });
}

/** Thrown by a tool that cannot know whether it acted: the call is reconciled or in doubt, never a result. */
export class InDoubt extends Error {
  override readonly name = 'InDoubt';
}

const UNREADABLE = 'what was thrown says nothing that can be read';

/** What an error says. Never throws, whatever was thrown: foreign code throws `undefined`, proxies and getters that throw. */
export function messageOf(thrown: unknown): string {
  if (thrown === undefined || thrown === null) return UNREADABLE;
  try {
    return String(thrown instanceof Error ? thrown.message : thrown);
  } catch {
    return UNREADABLE;
  }
}

/** `thrown instanceof kind`, for what foreign code threw: a proxy may throw even here. */
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

/** The `code` of an error that has one. Never throws. */
export function codeOf(thrown: unknown): string | undefined {
  try {
    return thrown instanceof Error && 'code' in thrown ? String(thrown.code) : undefined;
  } catch {
    return undefined;
  }
}
