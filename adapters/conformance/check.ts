import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { ProviderErrorDetails } from '../../protocol/error.ts';
import type { ModelRequest, ModelTurn } from '../../protocol/turn.ts';

/** How a check wants the adapter to be made. */
export type OpenOptions = {
  /** The root of a provider that a check makes up; the adapter's paths go behind it. */
  baseURL: string;
  /** Empty where the provider is to be called without one. */
  apiKey: string;
  /** Absent where the check needs real sockets. */
  fetch?: typeof fetch;
  maxResponseBytes: number;
  idleTimeoutMs: number;
};

/** One call and what the provider answers it, recorded or written by hand. */
export type Exchange = {
  /** Tells it apart in the names of the checks. */
  name: string;
  /** Default: one message of a user. */
  request?: ModelRequest;
  /** The whole body of the answer, as it is on the wire. */
  response: string | Uint8Array;
  /** Whether it is the answer of `stream`, else that of `generate`. */
  streamed: boolean;
  /** Default: `text/event-stream` where streamed, else `application/json`. */
  contentType?: string;
  /** What the turn must have; what is not named here may be anything. */
  expect?: Partial<ModelTurn>;
  /** What the call must fail with instead, such as an error in the middle of a stream. */
  fails?: Partial<ProviderErrorDetails>;
  /** Texts that must be in the next request byte for byte, such as signatures and encrypted reasoning. */
  comesBack?: readonly string[];
  /** The name of an exchange whose turn must be equal to this one's, such as its other mode. */
  sameTurnAs?: string;
};

export type AdapterUnderTest = {
  /** A new adapter. Called at least once by each check. */
  open(options: OpenOptions): ModelAdapter;
  /** At least one that is streamed and one that is not; some of them with calls. */
  exchanges: readonly Exchange[];
  /** Checks that do not apply to this provider, by their names, each with the reason. */
  except?: Readonly<Record<string, string>>;
};

export type AdapterCheck = { name: string; run(): Promise<void> };
