import type { JsonObject } from '../protocol/json.ts';
import { type HttpReply, httpReply } from './http-reply.ts';
import { baseURLInvalid, HttpFailure, keyMissing, type ProviderContext } from './provider-errors.ts';
import { refuseRedirects } from './refuse-redirects.ts';

/** What every adapter over HTTP takes. */
export type ConnectionOptions = {
  model: string;
  /** Default: the provider's environment variable, read at each call. */
  apiKey?: string;
  /** What the provider's own client takes. Default: the provider's environment variable, then its own URL. */
  baseURL?: string;
  /** Sent with every request. A redirect is not followed, so they go to the base URL alone. */
  headers?: Record<string, string>;
  fetch?: typeof fetch;
  /** How long the provider may take until it answers, in ms. Default 10 minutes. */
  timeoutMs?: number;
  /** The longest pause in the middle of an answer, in ms. Default 5 minutes. */
  idleTimeoutMs?: number;
  /** How long an answer may take from its beginning to its end, however steadily it comes, in ms. Default 30 minutes. */
  totalTimeoutMs?: number;
  /** The most bytes an answer may have. Default 64 MiB. */
  maxResponseBytes?: number;
  /** ms since the epoch, to read `retry-after` dates by. */
  now?: () => number;
};

/** Where a provider is, and where its key comes from. */
export type Endpoint = {
  provider: string;
  /** The first that is set gives the key; messages name the first. */
  keyVariables: readonly string[];
  /** The provider also answers without a key. */
  keyOptional?: boolean;
  baseURLVariable: string;
  /** Absent where every account has its own. */
  defaultBaseURL?: string;
  /** What a base URL looks like, for messages, where every account has its own. */
  baseURLExample?: string;
  /** Brings a base URL to the form that is used, such as with a `/v1`. Default: as it is. */
  resolveURL?: (baseURL: string) => string;
};

export type TransportSettings = {
  /** Empty where the provider needs none. */
  apiKey: string;
  baseURL: string;
  headers: Record<string, string>;
  /** Follows no redirect; throws an `HttpFailure` for a status that is not 2xx. */
  fetch: typeof fetch;
  timeoutMs: number;
};

/** Makes a POST and gives the response, its body unread. */
export type Transport = (path: string, body: JsonObject, signal: AbortSignal) => Promise<Response>;

export type Connection = {
  context: ProviderContext;
  /** Throws an `HttpFailure` for a status that is not 2xx. */
  post(path: string, body: JsonObject, signal: AbortSignal): Promise<HttpReply>;
};

/**
 * Opens connections through `open`, once per key and URL. Connecting throws a `ProviderError`:
 * `key-missing` when there is no key, `base-url-invalid` when there is no usable URL.
 */
export function connector(
  endpoint: Endpoint,
  options: ConnectionOptions,
  open: (settings: TransportSettings) => Transport | Promise<Transport>,
): () => Promise<Connection> {
  let opened: { apiKey: string; baseURL: string; transport: Transport } | undefined;
  const headers = options.headers ?? {};
  const secretHeaders = Object.values(headers).filter(value => value.length >= 16);
  const limits = {
    idleTimeoutMs: options.idleTimeoutMs ?? 300_000,
    totalTimeoutMs: options.totalTimeoutMs ?? 1_800_000,
    maxResponseBytes: options.maxResponseBytes ?? 64 * 1024 * 1024,
  };
  const timeoutMs = options.timeoutMs ?? 600_000;
  return async () => {
    const apiKey = options.apiKey ?? fromEnvironment(endpoint.keyVariables);
    const given =
      options.baseURL ?? (fromEnvironment([endpoint.baseURLVariable]) || (endpoint.defaultBaseURL ?? ''));
    const baseURL = endpoint.resolveURL?.(given) ?? given;
    const context: ProviderContext = {
      provider: endpoint.provider,
      model: options.model,
      keyVariable: endpoint.keyVariables[0] ?? '',
      baseURLVariable: endpoint.baseURLVariable,
      baseURL,
      secrets: [apiKey, ...secretHeaders],
    };
    if (opened?.apiKey !== apiKey || opened.baseURL !== baseURL) {
      if (!isHttpURL(baseURL)) throw baseURLInvalid(baseURL, context, endpoint.baseURLExample);
      if (apiKey === '' && endpoint.keyOptional !== true) throw keyMissing(context);
      const checked = throwingFailures(refuseRedirects(options.fetch), limits, context);
      const transport = await open({ apiKey, baseURL, headers, fetch: checked, timeoutMs });
      opened = { apiKey, baseURL, transport };
    }
    const { transport } = opened;
    return {
      context,
      post: async (path, body, signal) => httpReply(await transport(path, body, signal), limits, context),
    };
  };
}

/** Of an error's body no more is read, in characters. */
const LONGEST_ERROR = 1024 * 1024;

/** The official clients keep only part of an error's body; this keeps all of it. */
function throwingFailures(
  inner: typeof fetch,
  limits: Parameters<typeof httpReply>[1],
  context: ProviderContext,
): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, init);
    if (response.ok) return response;
    throw new HttpFailure(
      response.status,
      response.headers,
      await httpReply(response, limits, context).text(LONGEST_ERROR),
    );
  };
}

function isHttpURL(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

function fromEnvironment(variables: readonly string[]): string {
  for (const variable of variables) {
    const value = process.env[variable]?.trim();
    if (value) return value;
  }
  return '';
}
