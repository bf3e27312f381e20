/**
 * A redirect that was not followed. `location` is the resolved target URL; empty when the server named none.
 */
export class RedirectRefused extends Error {
  override readonly name = 'RedirectRefused';
  readonly status: number;
  readonly location: string;

  constructor(status: number, location: string) {
    super(`a redirect (HTTP ${status}) was not followed`);
    this.status = status;
    this.location = location;
  }
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
    const { status, redirected, type, headers } = response;
    if (!REDIRECTS.has(status) && !redirected && type !== 'opaqueredirect') return response;
    response.body?.cancel().catch(() => undefined);
    const requestURL = input instanceof Request ? input.url : String(input);
    throw new RedirectRefused(status, redirected ? response.url : targetOf(headers, requestURL));
  };
}

/** Returns a `RedirectRefused` for a status and headers that are a redirect, else `undefined`. */
export function redirectIn(
  status: number,
  headers: Pick<Headers, 'get'>,
  requestURL: string,
): RedirectRefused | undefined {
  return REDIRECTS.has(status) ? new RedirectRefused(status, targetOf(headers, requestURL)) : undefined;
}

function targetOf(headers: Pick<Headers, 'get'>, requestURL: string): string {
  const location = headers.get('location');
  if (location === null || !URL.canParse(location, requestURL)) return '';
  return new URL(location, requestURL).href;
}
