import type { Transport, TransportSettings } from './connection.ts';

/**
 * Through the official OpenAI client, which is loaded when first used and never retries. Organization
 * and project are taken from the environment only where the provider is OpenAI itself.
 */
export async function openaiTransport(
  { apiKey, baseURL, headers, fetch, timeoutMs }: TransportSettings,
  isOpenAI = false,
): Promise<Transport> {
  const { OpenAI } = await import('openai');
  const client = new OpenAI({
    apiKey: apiKey === '' ? 'none' : apiKey,
    baseURL,
    adminAPIKey: null,
    ...(isOpenAI ? {} : { organization: null, project: null }),
    defaultHeaders: headers,
    timeout: timeoutMs,
    maxRetries: 0,
    fetch,
  });
  return (path, body, signal) =>
    client.post(path, { body, signal, maxRetries: 0, stream: body.stream === true }).asResponse();
}
