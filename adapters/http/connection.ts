import type { JsonObject } from '../../protocol/json.ts';
import { BoundCall } from './bound-call.ts';
import { type ClientOptions, clientTransport, type ProviderClient } from './client-transport.ts';
import { fetchTransport, type Transport } from './fetch-transport.ts';
import { type HttpReply, httpReply } from './http-reply.ts';
import { baseURLInvalid, HttpFailure, keyMissing, type ProviderContext } from './provider-errors.ts';

/** What every adapter over HTTP takes. */
export type ConnectionOptions = {
  model: string;
  /** Default: the provider's environment variable, read at each call. */
  apiKey?: string;
  /** What the provider's own client takes; a query in it goes along, and a user name and password belong in `headers`. Default: the provider's environment variable, then its own URL. */
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
  /** The header that carries the key. Default: `authorization`, as a bearer token. */
  keyHeader?: string;
  /** Sent with every request, under the caller's own. Names in lower case. */
  headers?: Readonly<Record<string, string>>;
  /** The environment variables of more such headers; one that is not set sends none. */
  headerVariables?: Readonly<Record<string, string>>;
};

export type Connection = {
  context: ProviderContext;
  /** Throws an `HttpFailure` for a status that is not 2xx. */
  post(path: string, body: JsonObject, signal: AbortSignal): Promise<HttpReply>;
};

/**
 * Gives a connection for each call. Connecting throws a `ProviderError`: `key-missing` when there is no
 * key, `base-url-invalid` when there is no usable URL.
 */
export function connector(endpoint: Endpoint, options: ConnectionOptions & ClientOptions): () => Connection {
  const { client } = options;
  const limits = {
    idleTimeoutMs: options.idleTimeoutMs ?? 300_000,
    totalTimeoutMs: options.totalTimeoutMs ?? 1_800_000,
    maxResponseBytes: options.maxResponseBytes ?? 64 * 1024 * 1024,
  };
  const timeoutMs = options.timeoutMs ?? 600_000;
  const open = client ? throughClient(endpoint, options, client, timeoutMs) : directly(endpoint, options);
  return () => {
    const { context, transport } = open();
    const answer = async (path: string, body: JsonObject, signal: AbortSignal) => {
      const response = await transport(path, body, signal);
      if (response.ok) return response;
      const said = await httpReply(response, limits, context).text(LONGEST_ERROR);
      throw new HttpFailure(response.status, response.headers, said);
    };
    const post: Connection['post'] = async (path, body, signal) => {
      const call = new BoundCall(signal, timeoutMs);
      const response = await call.begin(limited => answer(path, body, limited));
      return httpReply(response, limits, context, () => call.end());
    };
    return { context, post };
  };
}

/** Of an error's body no more is read, in characters. */
const LONGEST_ERROR = 1024 * 1024;

type Opened = { context: ProviderContext; transport: Transport };

/** Opens a transport once per key and URL. */
function directly(endpoint: Endpoint, options: ConnectionOptions): () => Opened {
  let opened: { apiKey: string; found: Opened } | undefined;
  return () => {
    const apiKey = options.apiKey ?? fromEnvironment(endpoint.keyVariables);
    const given =
      options.baseURL ?? (fromEnvironment([endpoint.baseURLVariable]) || (endpoint.defaultBaseURL ?? ''));
    const baseURL = endpoint.resolveURL?.(given) ?? given;
    if (opened?.apiKey === apiKey && opened.found.context.baseURL === baseURL) return opened.found;
    const context: ProviderContext = {
      provider: endpoint.provider,
      model: options.model,
      keyVariable: endpoint.keyVariables[0] ?? '',
      baseURLVariable: endpoint.baseURLVariable,
      baseURL,
      secrets: [apiKey, ...secretsIn(options.headers)],
    };
    if (!isHttpURL(baseURL) || hasCredentials(baseURL))
      throw baseURLInvalid(baseURL, context, endpoint.baseURLExample);
    if (apiKey === '' && endpoint.keyOptional !== true) throw keyMissing(context);
    const headers = {
      'content-type': 'application/json',
      ...authorization(endpoint, apiKey),
      ...fromVariables(endpoint),
      ...headersOf(endpoint, options.headers),
    };
    const transport = fetchTransport(baseURL, headers, options.fetch);
    opened = { apiKey, found: { context, transport } };
    return opened.found;
  };
}

function throughClient(
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

function fromVariables({ headerVariables = {} }: Endpoint): Record<string, string> {
  const found = Object.entries(headerVariables).map(([name, variable]) => [
    name,
    fromEnvironment([variable]),
  ]);
  return Object.fromEntries(found.filter(([, value]) => value !== ''));
}

/** The endpoint's headers under the caller's, each name once and in lower case. */
function headersOf({ headers = {} }: Endpoint, own: Record<string, string> = {}): Record<string, string> {
  const lowered = Object.entries(own).map(([name, value]) => [name.toLowerCase(), value]);
  return { ...headers, ...Object.fromEntries(lowered) };
}

function secretsIn(headers: Record<string, string> = {}): string[] {
  return Object.values(headers).filter(value => value.length >= 16);
}

function isHttpURL(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);
}

/** `fetch` refuses such a URL, in words that quote it. */
function hasCredentials(baseURL: string): boolean {
  const { username, password } = new URL(baseURL);
  return username !== '' || password !== '';
}

function fromEnvironment(variables: readonly string[]): string {
  for (const variable of variables) {
    const value = process.env[variable]?.trim();
    if (value) return value;
  }
  return '';
}
