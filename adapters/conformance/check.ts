// The conformance checks for adapters, and replays of recorded responses over `fetch` and over sockets.
import type { ModelAdapter } from '../../protocol/adapter.ts';
import type { ProviderErrorDetails } from '../../protocol/error.ts';
import type { ModelRequest, ModelTurn } from '../../protocol/turn.ts';

/** The options with which a check creates the adapter. */
export type OpenOptions = {
  /** The root URL of a simulated provider; the adapter appends its paths. */
  baseURL: string;
  /** Empty if the check calls the provider without a key. */
  apiKey: string;
  /** Absent if the check needs real sockets. */
  fetch?: typeof fetch;
  /** The maximum size of a response in bytes. */
  maxResponseBytes: number;
  /** The longest pause within a response in ms. */
  idleTimeoutMs: number;
};

/** One call and the provider's response, recorded or written by hand. */
export type Exchange = {
  /** Unique; part of the names of the checks. */
  name: string;
  /** Default: a single user message. */
  request?: ModelRequest;
  /** The full response body as received. */
  response: string | Uint8Array;
  /** Whether the response belongs to `stream`, else to `generate`. */
  streamed: boolean;
  /** Default: `text/event-stream` if streamed, else `application/json`. */
  contentType?: string;
  /** Members that the turn must have; other members can have any value. */
  expect?: Partial<ModelTurn>;
  /** The error with which the call must fail instead, such as an error in the middle of a stream. */
  fails?: Partial<ProviderErrorDetails>;
  /** Texts that the next request must contain unchanged, such as signatures and encrypted reasoning. */
  comesBack?: readonly string[];
  /** The name of an exchange with an equal turn, such as the same response without streaming. */
  sameTurnAs?: string;
};

/** An adapter and the exchanges to check it with. */
export type AdapterUnderTest = {
  /** Creates the adapter. Each check calls this at least once. */
  open(options: OpenOptions): ModelAdapter;
  /** At least one streamed and one complete response; some of them with calls. */
  exchanges: readonly Exchange[];
  /** Checks that do not apply to this provider: the reason, by the check's name. */
  except?: Readonly<Record<string, string>>;
};

/** One check. `run` rejects if the adapter fails it. */
export type AdapterCheck = { name: string; run(): Promise<void> };
