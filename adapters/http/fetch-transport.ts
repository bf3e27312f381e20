import type { JsonObject } from '../../protocol/json.ts';
import { bodyText } from './body-text.ts';
import { refuseRedirects } from './refuse-redirects.ts';

/**
 * Sends a POST request and returns the response with its body unread. Does not retry. Throws a
 * `RedirectRefused` for a redirect, and may throw an `HttpFailure` for a status other than 2xx.
 */
export type Transport = (path: string, body: JsonObject, signal: AbortSignal) => Promise<Response>;

/**
 * Returns a transport that uses `fetch`, without retries. A query in `baseURL`, such as Azure's
 * `api-version`, is appended after the path. Proxies are configured in the runtime: Node uses `HTTPS_PROXY`
 * if `NODE_USE_ENV_PROXY=1`.
 */
export function fetchTransport(
  baseURL: string,
  headers: Readonly<Record<string, string>>,
  fetch?: typeof globalThis.fetch,
): Transport {
  const { root, query } = partsOf(baseURL);
  const post = refuseRedirects(fetch);
  return (path, body, signal) => {
    const search = query === '' ? '' : `${path.includes('?') ? '&' : '?'}${query}`;
    return post(`${root}${path}${search}`, {
      method: 'POST',
      headers,
      body: bodyText(body),
      signal,
    });
  };
}

function partsOf(baseURL: string): { root: string; query: string } {
  const [address = ''] = baseURL.split('#', 1);
  const end = address.indexOf('?');
  if (end === -1) return { root: trimSlashes(address), query: '' };
  return { root: trimSlashes(address.slice(0, end)), query: address.slice(end + 1) };
}

/** Removes the slashes at the end of a URL, so that a path can be appended. */
export function trimSlashes(url: string): string {
  let end = url.length;
  while (url[end - 1] === '/') end -= 1;
  return url.slice(0, end);
}
