import type { Transport, TransportSettings } from '../connection.ts';

/**
 * Through the official Anthropic client, which is loaded when first used and never retries. The key goes
 * as `x-api-key`, and the API version is 2023-06-01: later ones refuse `temperature` and `top_p`, and
 * other servers of this API know only this one. `headers` can name another version and another key.
 */
export async function anthropicTransport({
  apiKey,
  baseURL,
  headers,
  fetch,
  timeoutMs,
}: TransportSettings): Promise<Transport> {
  const { Anthropic } = await import('@anthropic-ai/sdk');
  const client = new Anthropic({
    apiKey,
    baseURL,
    defaultHeaders: {
      'anthropic-version': '2023-06-01',
      'x-api-key': apiKey,
      authorization: null,
      ...headers,
    },
    timeout: timeoutMs,
    maxRetries: 0,
    fetch,
  });
  return (path, body, signal) =>
    client.post(path, { body, signal, maxRetries: 0, stream: body.stream === true }).asResponse();
}
