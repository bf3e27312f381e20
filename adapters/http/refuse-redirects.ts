/** A redirect that was not followed. `location` is what the server named, resolved; empty when it named none. */
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
 * A `fetch` that follows no redirect, not even within an origin: a key, the user's own headers and the
 * conversation go to the address they were meant for and nowhere else. Throws a `RedirectRefused`, also
 * when `inner` has followed one although it was told not to.
 */
export function refuseRedirects(inner: typeof fetch = fetch): typeof fetch {
  return async (input, init) => {
    const response = await inner(input, { ...init, redirect: 'manual' });
    const { status, redirected, type, headers } = response;
    if (!REDIRECTS.has(status) && !redirected && type !== 'opaqueredirect') return response;
    response.body?.cancel().catch(() => undefined);
    const asked = input instanceof Request ? input.url : String(input);
    throw new RedirectRefused(status, redirected ? response.url : targetOf(headers, asked));
  };
}

/** The refusal of a response that was read elsewhere; `undefined` where it is no redirect. */
export function redirectIn(
  status: number,
  headers: Pick<Headers, 'get'>,
  asked: string,
): RedirectRefused | undefined {
  return REDIRECTS.has(status) ? new RedirectRefused(status, targetOf(headers, asked)) : undefined;
}

function targetOf(headers: Pick<Headers, 'get'>, asked: string): string {
  const location = headers.get('location');
  if (location === null || !URL.canParse(location, asked)) return '';
  return new URL(location, asked).href;
}
