import type { JsonObject } from '../../protocol/json.ts';
import type { Transport } from './fetch-transport.ts';
import { HttpFailure } from './provider-errors.ts';
import { RedirectRefused, redirectIn } from './refuse-redirects.ts';

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

/** The option of adapters that can use an official client. */
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

/**
 * Returns a transport that sends requests through an official client, with the client's own retries turned
 * off.
 */
export function clientTransport(
  client: ProviderClient,
  headers: Record<string, string>,
  timeoutMs: number,
): Transport {
  return async (path, body, signal) => {
    try {
      const response = await client
        .post(path, {
          body,
          headers,
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

/**
 * The error that the clients throw for a status other than 2xx. `error` is the parsed body; OpenAI's client
 * passes the body's member `error` instead, if there is one.
 */
type StatusError = Error & { status: number; headers: Pick<Headers, 'get'>; error?: unknown };

function isStatusError(thrown: unknown): thrown is StatusError {
  if (!(thrown instanceof Error) || !('status' in thrown) || !('headers' in thrown)) return false;
  const { status, headers } = thrown;
  if (typeof status !== 'number' || typeof headers !== 'object' || headers === null) return false;
  return 'get' in headers && typeof headers.get === 'function';
}

function failureIn(thrown: StatusError, requestURL: string): Error {
  const { status, headers } = thrown;
  return redirectIn(status, headers, requestURL) ?? new HttpFailure(status, headers, bodyIn(thrown));
}

/**
 * Returns the response body as text. A body that is not JSON is only in the error's message, after the
 * status.
 */
function bodyIn({ error, message, status }: StatusError): string {
  if (error !== undefined && error !== null) return JSON.stringify(error);
  return message === `${status} status code (no body)` ? '' : message.replace(`${status} `, '');
}
