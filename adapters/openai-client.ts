import type { OpenAI } from 'openai';
import { EngineError } from '../protocol/error.ts';
import type { JsonObject } from '../protocol/json.ts';
import { HttpFailure, type ProviderContext } from './provider-errors.ts';

/** What every adapter over the OpenAI client takes. */
export type OpenAIClientOptions = {
  model: string;
  /** Default: the provider's environment variable, read at each call. */
  apiKey?: string;
  /** With `/v1`, as the client takes it. Default: the provider's environment variable, then its own URL. */
  baseURL?: string;
  /** Sent with every request. */
  headers?: Record<string, string>;
  fetch?: typeof fetch;
  /** How long the provider may take until it answers, in ms. Default 10 minutes. */
  timeoutMs?: number;
  /** ms since the epoch, to read `retry-after` dates by. */
  now?: () => number;
};

/** Where a provider that speaks an OpenAI dialect is, and where its key comes from. */
export type OpenAIEndpoint = {
  provider: string;
  keyVariable: string;
  baseURLVariable: string;
  defaultBaseURL: string;
};

export type OpenAIConnection = {
  context: ProviderContext;
  /** The response of a POST, its body unread. Throws an `HttpFailure` for a status that is not 2xx. */
  post(path: string, body: JsonObject, signal: AbortSignal): Promise<Response>;
};

/**
 * Opens connections through the official client, which is loaded when first used and never retries.
 * Connecting throws an `EngineError` `key-missing` when there is no key.
 */
export function openaiConnector(
  endpoint: OpenAIEndpoint,
  options: OpenAIClientOptions,
): () => Promise<OpenAIConnection> {
  let opened: { apiKey: string; baseURL: string; client: OpenAI } | undefined;
  return async () => {
    const apiKey = options.apiKey ?? environment(endpoint.keyVariable);
    const baseURL = options.baseURL ?? (environment(endpoint.baseURLVariable) || endpoint.defaultBaseURL);
    if (apiKey === '') throw keyMissing(endpoint, options.model);
    if (opened?.apiKey !== apiKey || opened.baseURL !== baseURL) {
      opened = { apiKey, baseURL, client: await openClient(endpoint, options, apiKey, baseURL) };
    }
    const { client } = opened;
    return {
      context: {
        provider: endpoint.provider,
        model: options.model,
        keyVariable: endpoint.keyVariable,
        baseURLVariable: endpoint.baseURLVariable,
        baseURL,
        secrets: [apiKey, ...Object.values(options.headers ?? {}).filter(value => value.length >= 16)],
      },
      post: (path, body, signal) =>
        client.post(path, { body, signal, maxRetries: 0, stream: body.stream === true }).asResponse(),
    };
  };
}

async function openClient(
  endpoint: OpenAIEndpoint,
  options: OpenAIClientOptions,
  apiKey: string,
  baseURL: string,
): Promise<OpenAI> {
  const { OpenAI } = await import('openai');
  const isOpenAI = endpoint.keyVariable === 'OPENAI_API_KEY';
  return new OpenAI({
    apiKey,
    baseURL,
    adminAPIKey: null,
    ...(isOpenAI ? {} : { organization: null, project: null }),
    ...(options.headers ? { defaultHeaders: options.headers } : {}),
    timeout: options.timeoutMs ?? 600_000,
    maxRetries: 0,
    fetch: keepingErrorBodies(options.fetch ?? fetch),
  });
}

/** The client keeps only the `error` member of an error body; this keeps all of it. */
function keepingErrorBodies(inner: typeof fetch): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, init);
    if (response.ok) return response;
    throw new HttpFailure(response.status, response.headers, await response.text());
  };
}

function environment(variable: string): string {
  return process.env[variable]?.trim() ?? '';
}

function keyMissing(endpoint: OpenAIEndpoint, model: string): EngineError {
  return new EngineError(
    'key-missing',
    `${endpoint.provider} (${model}) needs a key, and there is none. Set ${endpoint.keyVariable}, or give the adapter the option apiKey; any text will do for a server that asks for none.`,
    { provider: endpoint.provider, variable: endpoint.keyVariable },
  );
}
