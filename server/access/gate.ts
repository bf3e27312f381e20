import type { Context, MiddlewareHandler } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { ANYONE, type Caller } from '../../access/caller.ts';
import { may } from '../../access/role.ts';
import { ApiError } from '../error-envelope.ts';
import { isForeign } from '../guard-request.ts';
import type { Area, RouteTable } from '../route.ts';
import type { RunsEnv } from '../runs-env.ts';
import { assertMay, forbidden, isStream } from './authorize.ts';
import type { SignInPace } from './sessions.ts';
import { closeOn, type Sessions } from './sessions.ts';
import type { Tokens } from './tokens.ts';

type GateOptions = {
  tokens: Tokens;
  sessions: Sessions;
  pace: SignInPace;
  routes: RouteTable;
  anyone?: Caller | undefined;
};

/** The bearer token may also be in `x-api-key`, which Anthropic's clients send. */
export class Gate {
  readonly #options: GateOptions;
  readonly #isOpen: boolean;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#isOpen = options.tokens.callers.length === 0;
  }

  /** Throws `forbidden` for a client outside `/v1`, also at routes that need no caller. */
  readonly identify: MiddlewareHandler<RunsEnv> = async (c, next) => {
    const { caller, ended } = this.#find(c) ?? {};
    if (caller !== undefined) c.set('caller', caller);
    if (ended !== undefined) c.set('sessionEnded', ended);
    if (caller !== undefined && !may(caller, 'read')) assertMay(c, caller, this.#options.routes, areaOf(c));
    await next();
  };

  /** An event stream ends with the session of its request. */
  readonly authorize: MiddlewareHandler<RunsEnv> = async (c, next) => {
    const caller: Caller | undefined = c.get('caller');
    const area = areaOf(c);
    if (caller === undefined) throw unauthorized(area);
    assertMay(c, caller, this.#options.routes, area);
    await next();
    const ended = c.get('sessionEnded');
    if (isStream(c.res) && ended !== undefined && c.res.body !== null)
      c.res = new Response(closeOn(ended, c.res.body), c.res);
  };

  /** Throws `unauthorized` for a wrong token, `forbidden` for a client's, or `too-many-attempts`. */
  async signIn(c: Context, token: string): Promise<void> {
    if (this.#isOpen) return;
    const { pace, tokens, sessions } = this.#options;
    const turn = await pace.takeTurn();
    if (turn.type === 'refused') {
      throw new ApiError('too-many-attempts', 'Too many failed sign-ins. Wait, then try again.', {
        retryAfterMs: turn.retryAfterMs,
      });
    }
    const caller = tokens.find(token);
    if (caller === undefined) throw unauthorized('runs');
    pace.forget();
    if (!may(caller, 'read')) throw forbidden(caller);
    this.signOut(c);
    const session = sessions.begin(caller);
    setCookie(c, cookieName(c), session, { httpOnly: true, sameSite: 'Strict', path: '/' });
  }

  signOut(c: Context): void {
    const session = getCookie(c, cookieName(c));
    if (session === undefined) return;
    this.#options.sessions.end(session);
    deleteCookie(c, cookieName(c), { path: '/' });
  }

  /** Cookies count for the server's own page only: a page that may use `/v1` must send a token. */
  #find(c: Context<RunsEnv>): { caller: Caller | undefined; ended?: AbortSignal } | undefined {
    const { tokens, sessions, anyone = ANYONE } = this.#options;
    if (this.#isOpen) return { caller: anyone };
    const [, bearer] = /^Bearer +([^ ].*)$/i.exec(c.req.header('authorization') ?? '') ?? [];
    const token = bearer ?? c.req.header('x-api-key');
    if (token !== undefined) return { caller: tokens.find(token) };
    if (isForeign(c.req.header('origin'), c.req.header('host') ?? '')) return undefined;
    const session = getCookie(c, cookieName(c));
    return session === undefined ? undefined : sessions.find(session);
  }
}

/** Named after the port, because browsers share cookies between the ports of a host. */
function cookieName(c: Context): string {
  const [, port = '80'] = /:(\d+)$/.exec(c.req.header('host') ?? '') ?? [];
  return `agentchart-${port}`;
}

function areaOf({ req }: Context): Area {
  return req.path.startsWith('/v1/') ? 'v1' : 'runs';
}

const HOW_TO_SEND_A_TOKEN: Readonly<Record<Area, string>> = {
  v1: 'Send "Authorization: Bearer TOKEN" or "x-api-key: TOKEN" with a token of this server as the API key.',
  runs: 'Send "Authorization: Bearer TOKEN", or sign in with POST /session.',
};

function unauthorized(area: Area): ApiError {
  return new ApiError('unauthorized', `This server requires a token. ${HOW_TO_SEND_A_TOKEN[area]}`);
}
