import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { isOwnName } from './bind-address.ts';
import { ApiError } from './error-envelope.ts';
import type { Sessions } from './sessions.ts';
import type { SignInPace } from './sign-in-pace.ts';

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ');

export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** Sets the headers on every answer, errors and streams too. What a run holds is never cached. */
export const setSecurityHeaders: MiddlewareHandler = async (c, next) => {
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) c.header(name, value);
  c.header('Cache-Control', 'no-store');
  await next();
};

/** Refuses requests that a foreign page made a browser send: under another name, or from another origin. */
export function guardOrigin(bound: string): MiddlewareHandler {
  return async (c, next) => {
    const host = c.req.header('host') ?? '';
    if (!isOwnName(host, bound)) {
      throw new ApiError(
        'forbidden',
        'The Host header does not name this server. Use the address it printed when it started.',
      );
    }
    const origin = c.req.header('origin');
    if (origin !== undefined && !isSameOrigin(origin, host)) {
      throw new ApiError(
        'forbidden',
        'The Origin header is another one: only this server’s own page may ask.',
      );
    }
    await next();
  };
}

/** Signing in and being signed in. Without a token everybody is. */
export class Gate {
  readonly #digest: Buffer | null;
  readonly #sessions: Sessions;
  readonly #pace: SignInPace;

  constructor(token: string | undefined, sessions: Sessions, pace: SignInPace) {
    this.#digest = token === undefined ? null : digestOf(token);
    this.#sessions = sessions;
    this.#pace = pace;
  }

  readonly requireToken: MiddlewareHandler = async (c, next) => {
    if (this.#digest !== null && !this.#isSignedIn(c)) throw unauthorized();
    await next();
  };

  /**
   * Exchanges the token for a cookie that scripts cannot read; slowly once others were wrong. Throws
   * `unauthorized` for another token, `too-many-attempts`.
   */
  async signIn(c: Context, token: string): Promise<void> {
    if (this.#digest === null) return;
    const turn = await this.#pace.takeTurn();
    if (turn.type === 'refused') {
      c.header('Retry-After', String(Math.ceil(turn.retryAfterMs / 1_000)));
      throw new ApiError('too-many-attempts', 'Too many sign-ins were wrong. Wait a moment and try again.');
    }
    if (!this.#isToken(token)) throw unauthorized();
    this.#pace.forget();
    this.signOut(c);
    setCookie(c, cookieName(c), this.#sessions.begin(), { httpOnly: true, sameSite: 'Strict', path: '/' });
  }

  signOut(c: Context): void {
    const session = getCookie(c, cookieName(c));
    if (session === undefined) return;
    this.#sessions.end(session);
    deleteCookie(c, cookieName(c), { path: '/' });
  }

  #isSignedIn(c: Context): boolean {
    const [, bearer] = /^Bearer +([^ ].*)$/i.exec(c.req.header('authorization') ?? '') ?? [];
    if (bearer !== undefined) return this.#isToken(bearer);
    const session = getCookie(c, cookieName(c));
    return session !== undefined && this.#sessions.has(session);
  }

  #isToken(token: string): boolean {
    return this.#digest !== null && timingSafeEqual(digestOf(token), this.#digest);
  }
}

/** Browsers share cookies between the ports of a host, so that each server's has a name of its own. */
function cookieName(c: Context): string {
  const [, port = '80'] = /:(\d+)$/.exec(c.req.header('host') ?? '') ?? [];
  return `agentchart-${port}`;
}

function isSameOrigin(origin: string, host: string): boolean {
  return origin.toLowerCase().replace(/^https?:\/\//, '') === host.toLowerCase() && origin !== host;
}

/** Digests are of one length, so that comparing takes the same time for every token. */
function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function unauthorized(): ApiError {
  return new ApiError(
    'unauthorized',
    'This server asks for its token: send "Authorization: Bearer TOKEN", or sign in with POST /session.',
  );
}
