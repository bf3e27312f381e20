import { createHash } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { isOwnName } from './bind-address.ts';
import { ApiError } from './error-envelope.ts';
import { type PageAssets, styleOf } from './page-assets.ts';

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // blob: is for images that the page itself makes, such as the PNG of a run's picture.
  "img-src 'self' blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ');

/** The policy of the page's document: the style that is in it is allowed too. */
export function policyOfPage({ html }: PageAssets): string {
  return POLICY.replace("style-src 'self'", `$& '${policyHash(styleOf(html))}'`);
}

/** How a policy names an inline script or style. */
export function policyHash(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** `Sec-Fetch-Site` of what the browser's own interface or this server's page asks for. */
const OWN_VISITS: ReadonlySet<string | undefined> = new Set(['none', 'same-origin']);

export const setSecurityHeaders: MiddlewareHandler = async (c, next) => {
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) c.header(name, value);
  // It parts the page from a site that opened it, and costs a new process of the browser: not for a person's own visit.
  if (!OWN_VISITS.has(c.req.header('sec-fetch-site'))) c.header('Cross-Origin-Opener-Policy', 'same-origin');
  c.header('Cache-Control', 'no-store');
  await next();
};

/** `bound`: the address that the server listens on. Pages of the origins in `shared` may use `/v1`. */
export function guardOrigin(bound: string, shared: readonly string[] = []): MiddlewareHandler {
  return async (c, next) => {
    const host = c.req.header('host') ?? '';
    if (!isOwnName(host, bound)) {
      throw new ApiError(
        'forbidden',
        'The Host header does not name this server. Use the address that the server printed when it started.',
      );
    }
    const origin = c.req.header('origin');
    const isShared = origin !== undefined && shared.includes(origin) && c.req.path.startsWith('/v1/');
    if (isForeign(origin, host) && !isShared) {
      throw new ApiError(
        'forbidden',
        'The Origin header names another origin. Send requests from this server’s own page, or without an Origin header.',
      );
    }
    await next();
  };
}

export function isForeign(origin: string | undefined, host: string): boolean {
  if (origin === undefined) return false;
  return origin.toLowerCase().replace(/^https?:\/\//, '') !== host.toLowerCase() || origin === host;
}
