import type { JsonObject } from '../../protocol/json.ts';
import { bodyText } from './body-text.ts';
import { HttpFailure, RedirectRefused } from './provider-errors.ts';

/** The part of `fetch` that adapters use: `fetch` itself fits, and so does one that answers with less than a `Response`. */
export type ProviderFetch = (
  url: string,
  request: {
    method: 'POST';
    /** Their names are in lower case. */
    headers: Readonly<Record<string, string>>;
    body: string;
    signal: AbortSignal;
    redirect: 'manual';
  },
) => Promise<ProviderResponse>;

/** The part of a `Response` that adapters read. `url` is read only if it was `redirected`. */
export type ProviderResponse = Pick<Response, 'status' | 'redirected' | 'type' | 'url'> & {
  headers: Pick<Headers, 'get'>;
  body: { getReader(): BodyReader; cancel(): Promise<unknown> } | null;
};

/** The part of a body's reader that adapters use. Rejects if the body ends too early. */
export type BodyReader = {
  read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>;
  cancel(reason?: unknown): Promise<unknown>;
};

/**
 * Sends a POST request once; its own headers, with names in lower case, override those of all requests. May throw
 * `RedirectRefused`, and `HttpFailure` for another status than 2xx.
 */
export type Transport = (
  path: string,
  body: JsonObject,
  signal: AbortSignal,
  headers?: Readonly<Record<string, string>>,
) => Promise<ProviderResponse>;

/** A query in `baseURL` comes after the path. Proxies are the runtime's (`NODE_USE_ENV_PROXY=1`). */
export function fetchTransport(
  baseURL: string,
  headers: Readonly<Record<string, string>>,
  send: ProviderFetch = fetch,
): Transport {
  const { root, query } = partsOf(baseURL);
  return async (path, body, signal, own) => {
    const search = query === '' ? '' : `${path.includes('?') ? '&' : '?'}${query}`;
    const url = `${root}${path}${search}`;
    const response = await send(url, {
      method: 'POST',
      headers: own ? { ...headers, ...own } : headers,
      body: bodyText(body),
      signal,
      redirect: 'manual',
    });
    refuseRedirect(response, url);
    return response;
  };
}

function partsOf(baseURL: string): { root: string; query: string } {
  const [address = ''] = baseURL.split('#', 1);
  const end = address.indexOf('?');
  if (end === -1) return { root: trimSlashes(address), query: '' };
  return { root: trimSlashes(address.slice(0, end)), query: address.slice(end + 1) };
}

export function trimSlashes(url: string): string {
  let end = url.length;
  while (url[end - 1] === '/') end -= 1;
  return url.slice(0, end);
}

/**
 * The part of an official client that an adapter uses. These clients fit unchanged: `OpenAI`, `AzureOpenAI`
 * and `BedrockOpenAI` of the package `openai`; `Anthropic` of `@anthropic-ai/sdk`; `AnthropicBedrock` of
 * `@anthropic-ai/bedrock-sdk` and `AnthropicVertex` of `@anthropic-ai/vertex-sdk`.
 */
export type ProviderClient = {
  readonly baseURL: string;
  /** The client's credentials, if it holds them as text. They are redacted from all errors. */
  readonly apiKey?: unknown;
  readonly authToken?: unknown;
  post(
    path: string,
    request: {
      body: JsonObject;
      headers: Record<string, string>;
      stream: boolean;
      signal: AbortSignal;
      timeout: number;
      maxRetries: number;
      fetchOptions: { redirect: 'manual' };
    },
  ): { asResponse(): Promise<Response> };
};

export type ClientOptions = {
  /**
   * An official client that makes the requests with its own key, URL, `fetch` and proxy. The options
   * `apiKey`, `baseURL` and `fetch` and the environment variables are then ignored. `headers` override the
   * client's headers. This adapter's limits apply. The client does not retry and does not follow redirects.
   *
   * @example
   * openaiResponses({ model: 'gpt-5', client: new AzureOpenAI({ endpoint, apiVersion, azureADTokenProvider }) })
   */
  client?: ProviderClient;
};

export function clientTransport(
  client: ProviderClient,
  headers: Record<string, string>,
  timeoutMs: number,
): Transport {
  return async (path, body, signal, own) => {
    try {
      const response = await client
        .post(path, {
          body,
          headers: own ? { ...headers, ...own } : headers,
          stream: body.stream === true,
          signal,
          timeout: timeoutMs,
          maxRetries: 0,
          fetchOptions: { redirect: 'manual' },
        })
        .asResponse();
      if (!response.redirected) return response;
      response.body?.cancel().catch(() => undefined);
      throw new RedirectRefused(response.status, response.url);
    } catch (thrown) {
      throw isStatusError(thrown) ? failureIn(thrown, client.baseURL) : thrown;
    }
  };
}

/** The clients' error for a status. `error` is the parsed body or, in OpenAI's client, its member `error`. */
type StatusError = Error & { status: number; headers: Pick<Headers, 'get'>; error?: unknown };

function isStatusError(thrown: unknown): thrown is StatusError {
  if (!(thrown instanceof Error) || !('status' in thrown) || !('headers' in thrown)) return false;
  const { status, headers } = thrown;
  if (typeof status !== 'number' || typeof headers !== 'object' || headers === null) return false;
  return 'get' in headers && typeof headers.get === 'function';
}

function failureIn(thrown: StatusError, requestURL: string): Error {
  const { status, headers } = thrown;
  if (REDIRECTS.has(status)) return new RedirectRefused(status, targetOf(headers, requestURL));
  return new HttpFailure(status, headers, bodyIn(thrown));
}

/** A body that is not JSON is only in the error's message, after the status. */
function bodyIn({ error, message, status }: StatusError): string {
  if (error !== undefined && error !== null) return JSON.stringify(error);
  return message === `${status} status code (no body)` ? '' : message.replace(`${status} `, '');
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Wraps `fetch` so that it follows no redirect, not even within an origin: the key, the caller's headers and
 * the conversation reach only the configured address. The returned function throws a `RedirectRefused`, also
 * when `inner` followed a redirect although it was asked not to.
 *
 * @example
 * const openai = createOpenAI({ fetch: refuseRedirects() });
 * const adapter = aiSdk(openai('gpt-5'));
 */
export function refuseRedirects(inner: typeof fetch = fetch): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, { ...init, redirect: 'manual' });
    refuseRedirect(response, input instanceof Request ? input.url : String(input));
    return response;
  };
}

function refuseRedirect(
  { status, redirected, type, headers, url, body }: ProviderResponse,
  asked: string,
): void {
  if (!REDIRECTS.has(status) && !redirected && type !== 'opaqueredirect') return;
  body?.cancel().catch(() => undefined);
  throw new RedirectRefused(status, redirected ? url : targetOf(headers, asked));
}

function targetOf(headers: Pick<Headers, 'get'>, requestURL: string): string {
  const location = headers.get('location');
  if (location === null || !URL.canParse(location, requestURL)) return '';
  return new URL(location, requestURL).href;
}
