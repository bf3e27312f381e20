import type { Transport, TransportSettings } from './connection.ts';
import { trimSlashes } from './trim-slashes.ts';

/** By `fetch` alone, for providers without a client of their own here. `authorization`: the headers that carry the key. */
export function fetchTransport(
  { baseURL, headers, fetch, timeoutMs }: TransportSettings,
  authorization: Record<string, string>,
): Transport {
  const root = trimSlashes(baseURL);
  return async (path, body, signal) => {
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(new DOMException('timed out', 'TimeoutError')), timeoutMs);
    try {
      return await fetch(`${root}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...authorization, ...headers },
        body: JSON.stringify(body),
        signal: AbortSignal.any([signal, patience.signal]),
      });
    } finally {
      clearTimeout(timer);
    }
  };
}
