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

/** The headers of every response. */
export const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** Sets the security headers on every response, including errors and streams, and forbids caching of run data. */
export const setSecurityHeaders: MiddlewareHandler = async (c, next) => {
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) c.header(name, value);
  c.header('Cache-Control', 'no-store');
  await next();
};

/**
 * Refuses requests that a foreign page made a browser send: with another server name (DNS rebinding) or from another
 * origin. `bound` is the address the server listens on.
 */
export function guardOrigin(bound: string): MiddlewareHandler {
  return async (c, next) => {
    const host = c.req.header('host') ?? '';
    if (!isOwnName(host, bound)) {
      throw new ApiError(
        'forbidden',
        'The Host header does not name this server. Use the address that the server printed when it started.',
      );
    }
    const origin = c.req.header('origin');
    if (origin !== undefined && !isSameOrigin(origin, host)) {
      throw new ApiError(
        'forbidden',
        'The Origin header names another origin. Send requests from this server’s own page, or without an Origin header.',
      );
    }
    await next();
  };
}

/**
 * Checks the token and the sign-in cookie. Without a token every request is allowed. Clients of Anthropic's API send
 * the token as `x-api-key`.
 */
export class Gate {
  readonly #digest: Buffer | null;
  readonly #sessions: Sessions;
  readonly #pace: SignInPace;

  constructor(token: string | undefined, sessions: Sessions, pace: SignInPace) {
    this.#digest = token === undefined ? null : digestOf(token);
    this.#sessions = sessions;
    this.#pace = pace;
  }

  /** Throws `unauthorized` for requests without the token or a valid cookie. */
  readonly requireToken: MiddlewareHandler = async (c, next) => {
    if (this.#digest !== null && !this.#isSignedIn(c)) throw unauthorized();
    await next();
  };

  /**
   * Exchanges the token for a cookie that scripts cannot read, with a delay after several wrong tokens. Throws
   * `unauthorized` for a wrong token, or `too-many-attempts`.
   */
  async signIn(c: Context, token: string): Promise<void> {
    if (this.#digest === null) return;
    const turn = await this.#pace.takeTurn();
    if (turn.type === 'refused') {
      c.header('Retry-After', String(Math.ceil(turn.retryAfterMs / 1_000)));
      throw new ApiError('too-many-attempts', 'Too many failed sign-ins. Wait, then try again.');
    }
    if (!this.#isToken(token)) throw unauthorized();
    this.#pace.forget();
    this.signOut(c);
    setCookie(c, cookieName(c), this.#sessions.begin(), { httpOnly: true, sameSite: 'Strict', path: '/' });
  }

  /** Ends the session of the request's cookie, if it has one. */
  signOut(c: Context): void {
    const session = getCookie(c, cookieName(c));
    if (session === undefined) return;
    this.#sessions.end(session);
    deleteCookie(c, cookieName(c), { path: '/' });
  }

  #isSignedIn(c: Context): boolean {
    const [, bearer = c.req.header('x-api-key')] =
      /^Bearer +([^ ].*)$/i.exec(c.req.header('authorization') ?? '') ?? [];
    if (bearer !== undefined) return this.#isToken(bearer);
    const session = getCookie(c, cookieName(c));
    return session !== undefined && this.#sessions.has(session);
  }

  #isToken(token: string): boolean {
    return this.#digest !== null && timingSafeEqual(digestOf(token), this.#digest);
  }
}

/** Named after the port, because browsers share cookies between the ports of a host. */
function cookieName(c: Context): string {
  const [, port = '80'] = /:(\d+)$/.exec(c.req.header('host') ?? '') ?? [];
  return `agentchart-${port}`;
}

function isSameOrigin(origin: string, host: string): boolean {
  return origin.toLowerCase().replace(/^https?:\/\//, '') === host.toLowerCase() && origin !== host;
}

/** Digests have equal lengths, so comparing them takes the same time for every token. */
function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function unauthorized(): ApiError {
  return new ApiError(
    'unauthorized',
    'This server requires its token. Send "Authorization: Bearer TOKEN", or sign in with POST /session.',
  );
}
