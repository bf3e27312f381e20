// HTTP for all adapters: connections, limits, server-sent events, redaction of secrets, and the mapping of every
// failure to a `ProviderError`. Nothing here knows the request format of a provider.

import type { Capabilities, CapturedExchange } from '../../protocol/adapter.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { optionNames } from '../../protocol/options/refuse-unknown.ts';
import { bodyText } from './body-text.ts';
import {
  baseURLInvalid,
  HttpFailure,
  keyMissing,
  type ProviderContext,
  responseTooLarge,
  stalled,
  tookTooLong,
} from './provider-errors.ts';
import { redactText } from './redact-secrets.ts';
import {
  type BodyReader,
  type ClientOptions,
  clientTransport,
  fetchTransport,
  type ProviderClient,
  type ProviderFetch,
  type ProviderResponse,
  type Transport,
} from './transport.ts';

/** The options of every HTTP adapter. */
export type ConnectionOptions = {
  model: string;
  /** Default: the provider's environment variable, read at each call. */
  apiKey?: string;
  /**
   * The base URL, in the form that the provider's official client takes. A query string is kept and sent. A
   * user name and password are refused; send them in `headers`. Default: the provider's environment variable,
   * then its public URL.
   */
  baseURL?: string;
  /** Sent with every request. Redirects are not followed, so only the base URL receives them. */
  headers?: Record<string, string>;
  /** Replaces the global `fetch`. */
  fetch?: ProviderFetch;
  /** The time limit for the response headers, in ms. Default: 10 minutes. */
  timeoutMs?: number;
  /** The longest pause between two pieces of the response body, in ms. Default: 5 minutes. */
  idleTimeoutMs?: number;
  /** The time limit for the whole response body, in ms. Default: 30 minutes. */
  totalTimeoutMs?: number;
  /** The maximum size of the response body, in bytes. Default: 64 MiB. */
  maxResponseBytes?: number;
  /** The current time in ms since the epoch, for `retry-after` dates. Default: `Date.now`. */
  now?: () => number;
};

export const CONNECTION_NAMES = optionNames<ConnectionOptions>()(
  'model apiKey baseURL headers fetch timeoutMs idleTimeoutMs totalTimeoutMs maxResponseBytes now',
);

/** A provider's address and the sources of its API key. */
export type Endpoint = {
  provider: string;
  /** Environment variables for the key; the first one that is set is used. Error messages name the first. */
  keyVariables: readonly string[];
  /** The provider works without a key too. */
  keyOptional?: boolean;
  baseURLVariable: string;
  /** Absent if every account has its own URL. */
  defaultBaseURL?: string;
  /** Whether each turn says what it used. Default: `true`. */
  usage?: Capabilities['usage'];
  /** An example of a base URL for error messages, if every account has its own. */
  baseURLExample?: string;
  /** Normalizes a base URL, for example by adding `/v1`. Default: unchanged. */
  resolveURL?: (baseURL: string) => string;
  /** The header that carries the key. Default: `authorization`, as a bearer token. */
  keyHeader?: string;
  /** Sent with every request; the caller's headers override them. Names are in lower case. */
  headers?: Readonly<Record<string, string>>;
  /** Further headers, by the environment variable that holds their value; not sent while it is unset. */
  headerVariables?: Readonly<Record<string, string>>;
};

/** Whether turns say what they used: those of the provider itself do; those of a server at another URL may not. */
export function usageFrom(
  { baseURLVariable, defaultBaseURL, usage = true }: Endpoint,
  { baseURL, client }: Pick<ConnectionOptions & ClientOptions, 'baseURL' | 'client'>,
): Capabilities['usage'] {
  const configured = client?.baseURL ?? baseURL ?? fromEnvironment([baseURLVariable]);
  const isElsewhere =
    configured !== '' && defaultBaseURL !== undefined && originOf(configured) !== originOf(defaultBaseURL);
  return isElsewhere ? 'unknown' : usage;
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}

/** The endpoint of a provider that names its variables as most do: `GROQ_API_KEY` and `GROQ_BASE_URL`. */
export function endpointOf(provider: string, defaultBaseURL: string): Endpoint {
  const prefix = provider.toUpperCase();
  const keyVariables = [`${prefix}_API_KEY`];
  return { provider, keyVariables, baseURLVariable: `${prefix}_BASE_URL`, defaultBaseURL };
}

export type ProviderConnection = {
  context: ProviderContext;
  /**
   * Sends a POST request; its own headers, with names in lower case, override those of all requests. Throws an
   * `HttpFailure` for a status other than 2xx.
   */
  post(
    path: string,
    body: JsonObject,
    signal: AbortSignal,
    headers?: Readonly<Record<string, string>>,
  ): Promise<HttpReply>;
};

/** Returns a function that opens a connection; it throws `key-missing` or `base-url-invalid` as a `ProviderError`. */
export function connector(
  endpoint: Endpoint,
  options: ConnectionOptions & ClientOptions,
): () => ProviderConnection {
  const { client } = options;
  const limits = callLimits(options);
  const { timeoutMs } = limits;
  const open = client ? clientOpener(endpoint, options, client, timeoutMs) : fetchOpener(endpoint, options);
  return () => {
    const { context, transport } = open();
    const request: Transport = async (...call) => {
      const response = await transport(...call);
      if (response.status >= 200 && response.status < 300) return response;
      const errorText = await httpReply(response, limits, context).text(LONGEST_ERROR);
      throw new HttpFailure(response.status, response.headers, errorText);
    };
    const post: ProviderConnection['post'] = async (path, body, signal, headers) => {
      const call = new BoundCall(signal, timeoutMs);
      const response = await call.begin(bound => request(path, body, bound, headers));
      return httpReply(response, limits, context, () => call.end());
    };
    return { context, post };
  };
}

/** The longest request and the longest reply that are captured, in characters. */
const LONGEST_CAPTURE = 1024 * 1024;

export function capturing(
  connection: ProviderConnection,
  exchanges: CapturedExchange[] | undefined,
): ProviderConnection {
  if (exchanges === undefined) return connection;
  const { context } = connection;
  const clean = (text: string) => redactText(text, context.secrets).slice(0, LONGEST_CAPTURE);
  const post: ProviderConnection['post'] = async (path, body, signal, headers) => {
    // Twice as much is kept: the cut of the raw text must not leave half a secret in what is shown.
    let raw = '';
    const keep = (text: string) => {
      if (raw.length < 2 * LONGEST_CAPTURE) raw += text;
    };
    let status: number | null = null;
    exchanges.push({
      path: clean(path),
      request: clean(bodyText(body)),
      get status() {
        return status;
      },
      get reply() {
        return clean(raw);
      },
    });
    try {
      const reply = await connection.post(path, body, signal, headers);
      status = reply.status;
      return {
        ...reply,
        chunks: () => keepChunks(reply.chunks(), keep),
        async text(max) {
          const text = await reply.text(max);
          keep(text);
          return text;
        },
      };
    } catch (error) {
      if (error instanceof HttpFailure) {
        status = error.status;
        keep(error.body);
      }
      throw error;
    }
  };
  return { context, post };
}

async function* keepChunks(
  chunks: AsyncIterable<Uint8Array>,
  keep: (text: string) => void,
): AsyncGenerator<Uint8Array, void> {
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    keep(decoder.decode(chunk, { stream: true }));
    yield chunk;
  }
}

const LONGEST_ERROR = 1024 * 1024;

type Opened = { context: ProviderContext; transport: Transport };

function fetchOpener(endpoint: Endpoint, options: ConnectionOptions): () => Opened {
  let cached: (Opened & { apiKey: string }) | undefined;
  return () => {
    const apiKey = options.apiKey ?? fromEnvironment(endpoint.keyVariables);
    const configured =
      options.baseURL ?? (fromEnvironment([endpoint.baseURLVariable]) || (endpoint.defaultBaseURL ?? ''));
    const baseURL = endpoint.resolveURL?.(configured) ?? configured;
    if (cached?.apiKey === apiKey && cached.context.baseURL === baseURL) return cached;
    const context: ProviderContext = {
      provider: endpoint.provider,
      model: options.model,
      keyVariable: endpoint.keyVariables[0] ?? '',
      baseURLVariable: endpoint.baseURLVariable,
      baseURL,
      secrets: [apiKey, ...secretsIn(options.headers)],
    };
    if (!isUsable(baseURL)) throw baseURLInvalid(baseURL, context, endpoint.baseURLExample);
    if (apiKey === '' && endpoint.keyOptional !== true) throw keyMissing(context);
    const fromVariables = Object.entries(endpoint.headerVariables ?? {})
      .map(([name, variable]) => [name, fromEnvironment([variable])])
      .filter(([, value]) => value !== '');
    const headers = {
      'content-type': 'application/json',
      ...authorization(endpoint, apiKey),
      ...Object.fromEntries(fromVariables),
      ...headersOf(endpoint, options.headers),
    };
    cached = { apiKey, context, transport: fetchTransport(baseURL, headers, options.fetch) };
    return cached;
  };
}

function clientOpener(
  endpoint: Endpoint,
  { model, headers }: ConnectionOptions,
  client: ProviderClient,
  timeoutMs: number,
): () => Opened {
  const transport = clientTransport(client, headersOf(endpoint, headers), timeoutMs);
  return () => {
    const keys = [client.apiKey, client.authToken].filter(key => typeof key === 'string');
    const context: ProviderContext = {
      provider: endpoint.provider,
      model,
      keyVariable: '',
      baseURLVariable: '',
      baseURL: client.baseURL,
      secrets: [...keys, ...secretsIn(headers)],
    };
    return { context, transport };
  };
}

function authorization({ keyHeader }: Endpoint, apiKey: string): Record<string, string> {
  if (apiKey === '') return {};
  return keyHeader === undefined ? { authorization: `Bearer ${apiKey}` } : { [keyHeader]: apiKey };
}

function headersOf({ headers = {} }: Endpoint, own: Record<string, string> = {}): Record<string, string> {
  const lowered = Object.entries(own).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...headers, ...Object.fromEntries(lowered) };
}

/** Short header values are rarely secrets and would be redacted from ordinary text. */
export function secretsIn(headers: Record<string, string> = {}): string[] {
  return Object.values(headers).filter(value => value.length >= 16);
}

/** `fetch` refuses a URL with credentials, with a message that quotes them. */
function isUsable(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}

function fromEnvironment(variables: readonly string[]): string {
  return variables.map(readVariable).find(value => value) ?? '';
}

/**
 * Binds a call to its caller's abort signal and limits how long the call may take to start. `AbortSignal.any`
 * would do the same, but costs as much as the rest of a request.
 *
 * B1 `begin` rejects with the signal's reason or with a `TimeoutError`, even if `start` ignores its signal.
 * B2 Until `end`, the caller's signal aborts the call. After `end`, the signal has no listener of this call.
 */
export class BoundCall {
  readonly #caller: AbortSignal;
  readonly #timeoutMs: number;
  readonly #controller = new AbortController();
  readonly #interrupted = Promise.withResolvers<never>();
  readonly #onAbort = () => this.#break(this.#caller.reason);

  constructor(caller: AbortSignal, timeoutMs: number) {
    this.#caller = caller;
    this.#timeoutMs = timeoutMs;
  }

  /** Call `end` when you are done with the value; after a rejection the call has already ended. */
  async begin<Value>(start: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    this.#caller.throwIfAborted();
    this.#caller.addEventListener('abort', this.#onAbort);
    const onTimeout = () => this.#break(new DOMException('timed out', 'TimeoutError'));
    const timer = setTimeout(onTimeout, this.#timeoutMs);
    try {
      return await Promise.race([this.#interrupted.promise, start(this.#controller.signal)]);
    } catch (error) {
      this.end();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  end(): void {
    this.#caller.removeEventListener('abort', this.#onAbort);
  }

  #break(reason: unknown): void {
    this.#interrupted.reject(reason);
    this.#controller.abort(reason);
  }
}

export function readVariable(name: string): string | undefined {
  return globalThis.process?.env?.[name]?.trim();
}

type Limits = Required<
  Pick<ConnectionOptions, 'timeoutMs' | 'idleTimeoutMs' | 'totalTimeoutMs' | 'maxResponseBytes'>
>;

export function callLimits({
  timeoutMs = 600_000,
  idleTimeoutMs = 300_000,
  totalTimeoutMs = 1_800_000,
  maxResponseBytes = 64 * 1024 * 1024,
}: Partial<Limits>): Limits {
  return { timeoutMs, idleTimeoutMs, totalTimeoutMs, maxResponseBytes };
}

/** A body that can be read once, with `chunks` or `text`. Both throw a `ProviderError` when a limit is exceeded. */
export type HttpReply = {
  status: number;
  headers: Pick<Headers, 'get'>;
  chunks(): AsyncIterable<Uint8Array>;
  /** Returns the body, cut to `maxLength` characters. */
  text(maxLength?: number): Promise<string>;
};

/** `onEnd` is called, possibly more than once, when the body ends, fails, or is abandoned by its reader. */
export function httpReply(
  response: ProviderResponse,
  limits: Limits,
  context: ProviderContext,
  onEnd: () => void = () => undefined,
): HttpReply {
  const { status, headers, body } = response;
  if (!body) onEnd();
  const guard = () => body && new BodyGuard(body.getReader(), limits, context, onEnd);
  return { status, headers, chunks: () => chunksOf(guard()), text: maxLength => textOf(guard(), maxLength) };
}

async function textOf(guard: BodyGuard | null, maxLength = Number.POSITIVE_INFINITY): Promise<string> {
  let text = '';
  const decoder = new TextDecoder();
  for (let chunk = await guard?.read(); chunk; chunk = await guard?.read()) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length <= maxLength) continue;
    guard?.abandon();
    return text.slice(0, maxLength);
  }
  return text + decoder.decode();
}

/** How long an abandoned body is drained before its connection is closed, in ms. */
const GRACE_MS = 1_000;

/** A reader that stops early: the rest is drained for up to a second, so that the connection is reusable. */
function chunksOf(guard: BodyGuard | null): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]: () => ({
      async next() {
        const value = await guard?.read();
        return value ? { done: false, value } : ENDED;
      },
      async return() {
        guard?.abandon();
        return ENDED;
      },
    }),
  };
}

const ENDED: IteratorReturnResult<undefined> = { done: true, value: undefined };

/**
 * Reads a body and enforces its limits.
 *
 * G1 A body that exceeds a limit is cancelled, which closes its connection; every later read throws the same
 *    error.
 * G2 The idle limit counts from the start of a read, while it waits. The total limit counts from the first read.
 * G3 One timer per body, set for whichever limit comes first, and set again only when it fires: a read costs no
 *    timer. It stops when the body ends or fails.
 */
class BodyGuard {
  readonly #reader: BodyReader;
  readonly #limits: Limits;
  readonly #context: ProviderContext;
  readonly #onEnd: () => void;
  #timer: NodeJS.Timeout | undefined;
  /** The start of the first read and of the read that waits, in ms on a monotonic clock. */
  #firstRead: number | undefined;
  #waitingSince: number | undefined;
  #bytes = 0;
  #error: Error | undefined;

  constructor(reader: BodyReader, limits: Limits, context: ProviderContext, onEnd: () => void) {
    this.#reader = reader;
    this.#limits = limits;
    this.#context = context;
    this.#onEnd = onEnd;
  }

  async read(): Promise<Uint8Array | undefined> {
    this.#waitingSince = performance.now();
    if (this.#firstRead === undefined) this.#watch(this.#waitingSince);
    try {
      const { value } = await this.#reader.read();
      if (this.#error) throw this.#error;
      if (value === undefined) this.#stop();
      else this.#count(value.byteLength);
      return value;
    } catch (error) {
      this.#stop();
      throw this.#error ?? error;
    } finally {
      this.#waitingSince = undefined;
    }
  }

  #count(bytes: number): void {
    const { maxResponseBytes } = this.#limits;
    this.#bytes += bytes;
    if (this.#bytes > maxResponseBytes) throw this.#fail(responseTooLarge(maxResponseBytes, this.#context));
  }

  /** Abandons the body: stops the timers and drains the rest in the background. */
  abandon(): void {
    this.#stop();
    void drain(this.#reader);
  }

  #stop(): void {
    clearTimeout(this.#timer);
    this.#onEnd();
  }

  #watch(now: number): void {
    const { totalTimeoutMs, idleTimeoutMs } = this.#limits;
    this.#firstRead ??= now;
    const untilTotal = this.#firstRead + totalTimeoutMs - now;
    const untilIdle = (this.#waitingSince ?? now) + idleTimeoutMs - now;
    if (untilTotal <= 0) this.#fail(tookTooLong(totalTimeoutMs, this.#context));
    else if (untilIdle <= 0) this.#fail(stalled(idleTimeoutMs, this.#context));
    // A timer may fire a fraction of a millisecond early.
    else
      this.#timer = setTimeout(
        () => this.#watch(performance.now()),
        Math.ceil(Math.min(untilTotal, untilIdle)),
      );
  }

  #fail(error: Error): Error {
    this.#error = error;
    this.#stop();
    this.#reader.cancel(error).catch(() => undefined);
    return error;
  }
}

async function drain(reader: BodyReader): Promise<void> {
  const deadline = setTimeout(() => reader.cancel().catch(() => undefined), GRACE_MS);
  try {
    let read = await reader.read();
    while (!read.done) read = await reader.read();
  } catch {
    // The connection is already closed.
  } finally {
    clearTimeout(deadline);
  }
}
