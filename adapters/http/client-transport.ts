import type { JsonObject } from '../../protocol/json.ts';
import type { Transport } from './fetch-transport.ts';
import { HttpFailure } from './provider-errors.ts';
import { RedirectRefused, redirectIn } from './refuse-redirects.ts';

/**
 * What an adapter uses of an official client. These fit as they are: `OpenAI`, `AzureOpenAI` and
 * `BedrockOpenAI` of the package `openai`; `Anthropic` of `@anthropic-ai/sdk`; `AnthropicBedrock` of
 * `@anthropic-ai/bedrock-sdk` and `AnthropicVertex` of `@anthropic-ai/vertex-sdk`.
 */
export type ProviderClient = {
  readonly baseURL: string;
  /** What must be in no error, where the client has it as a text. */
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
   * An official client that makes the requests, with its own key, address, `fetch` and proxy. `apiKey`,
   * `baseURL`, `fetch` and the environment variables are not used then. `headers` go over the client's, the
   * limits of this adapter hold, and the client retries nothing and follows no redirect.
   *
   * @example
   * openaiResponses({ model: 'gpt-5', client: new AzureOpenAI({ endpoint, apiVersion, azureADTokenProvider }) })
   */
  client?: ProviderClient;
};

/** Requests through an official client, whose own retries are off. */
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

/** What the clients throw for a status that is not 2xx: `error` is the body, at OpenAI its member `error` where it has one. */
type StatusError = Error & { status: number; headers: Pick<Headers, 'get'>; error?: unknown };

function isStatusError(thrown: unknown): thrown is StatusError {
  if (!(thrown instanceof Error) || !('status' in thrown) || !('headers' in thrown)) return false;
  const { status, headers } = thrown;
  if (typeof status !== 'number' || typeof headers !== 'object' || headers === null) return false;
  return 'get' in headers && typeof headers.get === 'function';
}

function failureIn(thrown: StatusError, asked: string): Error {
  const { status, headers } = thrown;
  return redirectIn(status, headers, asked) ?? new HttpFailure(status, headers, bodyIn(thrown));
}

/** The body as text. One that was not JSON is in the message, behind the status; of none the message says so. */
function bodyIn({ error, message, status }: StatusError): string {
  if (error !== undefined && error !== null) return JSON.stringify(error);
  return message === `${status} status code (no body)` ? '' : message.replace(`${status} `, '');
}
