import type { Context, Hono } from 'hono';
import * as z from 'zod';
import type { Agent } from '../../agent/agent.ts';
import { KEEP_ALIVE_COMMENT, streamedBody } from '../../engine/events/streamed-body.ts';
import { warn } from '../../engine/host/host.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { type Agents, byPlainName } from '../../server/agent-names.ts';
import { HANDLER_NAMES, type Handler, type HandlerOptions, handlerOf } from '../../server/handler.ts';
import type { MountedApi } from '../../server/mounted-api.ts';
import { describeIssues, readBody } from '../../server/read-body.ts';
import type { RouteTable } from '../../server/route.ts';
import type { RunsEnv } from '../../server/runs-env.ts';
import { type ServedRuns, serveRunsOf } from '../served/served-runs.ts';
import { noPush, Operations, type Updates } from './operations.ts';
import {
  A2A_VERSION,
  A2aError,
  describeA2aError,
  listSchema,
  type StreamResponse,
  sendSchema,
  taskSchema,
} from './wire.ts';

export type A2aApiOptions = {
  runs: ServedRuns;
  hasToken: boolean;
  log(line: string): void;
};

type Request = Context<RunsEnv>;

type Outcome = { value: unknown } | { stream: Updates; left: AbortController };

const PREFIX = '/a2a';
const CARD = '/.well-known/agent-card.json';
const UNREADABLE = -32700;

const JSON_TYPE = 'application/a2a+json';

/** The routes of A2A; its operations are named in `ROUTES` and in the bodies of JSON-RPC. @internal */
/** What a request may do depends on its operation, which checks it. */
export const A2A_ROUTES = {
  'GET /.well-known/agent-card.json': { summary: 'Read the card of the first agent.' },
  'GET /a2a/:agent/.well-known/agent-card.json': { summary: 'Read the card of an agent.' },
  'POST /a2a/:agent': { summary: 'A2A 1.0 as JSON-RPC.', right: 'read', streams: true },
  'ALL /a2a/:agent/*': { summary: 'A2A 1.0 as REST.', right: 'read', streams: true },
} as const satisfies RouteTable;

/** @internal */
export function createA2aApi({ runs, hasToken, log }: A2aApiOptions): MountedApi {
  const agents = byPlainName(runs.agents.values());
  const [first] = agents.keys();

  const card = (c: Request, name: string) => {
    const { origin, pathname } = new URL(c.req.url);
    const url = `${origin}${pathname.slice(0, pathname.indexOf(CARD)).replace(/\/a2a\/.*$/, '')}`;
    return c.json(agentCard(find(name), { url: `${url}${PREFIX}/${encodeURIComponent(name)}`, hasToken }));
  };

  return {
    prefix: PREFIX,
    paths: [PREFIX, CARD],
    area: 'runs',
    routes: A2A_ROUTES,
    add(app: Hono<RunsEnv>) {
      app.get(CARD, c => card(c, first ?? ''));
      app.get(`${PREFIX}/:agent${CARD}`, c => card(c, c.req.param('agent')));
      app.post(`${PREFIX}/:agent`, async c => await answerRpc(c, find(c.req.param('agent'))));
      app.all(`${PREFIX}/:agent/*`, async c => await answerRest(c, find(c.req.param('agent'))));
    },
    answerError: (_, error) => restError(error),
    close: () => runs.close(),
  };

  function find(name: string): Agent {
    const agent = agents.get(name);
    if (agent !== undefined) return agent;
    throw new A2aError(
      'method-unknown',
      `There is no agent "${name}" here. The agents: ${[...agents.keys()].join(', ')}.`,
    );
  }

  /** The errors of an operation are results of JSON-RPC, with status 200. */
  async function answerRpc(c: Request, agent: Agent): Promise<Response> {
    let body: unknown;
    try {
      body = await readBody(c.req.raw, z.json(), c.get('requestLimits'));
    } catch (thrown) {
      const { status, message } = describeForLog(thrown);
      const error = { code: UNREADABLE, message };
      return Response.json({ jsonrpc: '2.0', id: null, error }, { status });
    }
    const call = rpcSchema.safeParse(body);
    const id = call.success ? (call.data.id ?? null) : null;
    const failed = (error: unknown) => {
      const { code, message, details } = describeForLog(error);
      return { jsonrpc: '2.0', id, error: { code, message, data: details } };
    };
    if (!call.success)
      return c.json({
        jsonrpc: '2.0',
        id,
        error: { code: -32600, message: 'The body is not a JSON-RPC 2.0 request.' },
      });
    try {
      assertVersion(c);
      const outcome = await operate(operationsOf(c, agent), call.data.method, call.data.params);
      if ('value' in outcome) return c.json({ jsonrpc: '2.0', id, result: outcome.value });
      return streamed(outcome, {
        write: result => ({ jsonrpc: '2.0', id, result }),
        failed: error => `data: ${JSON.stringify(failed(error))}\n\n`,
      });
    } catch (error) {
      return c.json(failed(error), describeA2aError(error).status === 403 ? 403 : 200);
    }
  }

  async function answerRest(c: Request, agent: Agent): Promise<Response> {
    try {
      assertVersion(c);
      const { pathname, searchParams } = new URL(c.req.url);
      const path = pathname
        .slice(pathname.indexOf(PREFIX))
        .split('/')
        .slice(3)
        .map(decodeURIComponent)
        .join('/');
      const route = ROUTES.find(({ method, pattern }) => method === c.req.method && pattern.test(path));
      if (route === undefined)
        throw new A2aError('method-unknown', `There is no ${c.req.method} route at this path.`);
      const [, id] = route.pattern.exec(path) ?? [];
      const body =
        route.hasBody === true ? await readBody(asJson(c.req.raw), z.json(), c.get('requestLimits')) : {};
      const params = { ...Object.fromEntries(searchParams), ...(body as object), ...omitUndefined({ id }) };
      const outcome = await operate(operationsOf(c, agent), route.operation, params);
      if ('value' in outcome) return Response.json(outcome.value, { headers: { 'content-type': JSON_TYPE } });
      return streamed(outcome, {
        write: response => response,
        failed: error => `event: error\ndata: ${JSON.stringify(restBody(error))}\n\n`,
      });
    } catch (error) {
      return restError(error);
    }
  }

  function operationsOf(c: Request, agent: Agent): Operations {
    return new Operations(runs, agent, c.get('caller'));
  }

  function streamed(
    { stream, left }: Extract<Outcome, { stream: unknown }>,
    { write, failed }: { write(update: StreamResponse): object; failed(error: unknown): string },
  ): Response {
    const body = streamedBody(stream, {
      frame: updates => updates.map(update => `data: ${JSON.stringify(write(update))}\n\n`).join(''),
      failed,
      keepAlive: { text: KEEP_ALIVE_COMMENT, host: runs.host },
      leave: () => left.abort(),
    });
    return new Response(body, {
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
    });
  }

  function describeForLog(error: unknown) {
    const described = describeA2aError(error);
    if (described.status === 500)
      log(`A2A: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
    return described;
  }

  function restBody(error: unknown) {
    const { status: code, name: status, message, details } = describeForLog(error);
    return { error: { code, status, message, details } };
  }

  function restError(error: unknown): Response {
    const body = restBody(error);
    return Response.json(body, { status: body.error.code, headers: { 'content-type': JSON_TYPE } });
  }
}

const rpcSchema = z.looseObject({
  jsonrpc: z.literal('2.0'),
  id: z.exactOptional(z.union([z.string(), z.number(), z.null()])),
  method: z.string(),
  params: z._default(z.record(z.string(), z.json()), {}),
});

type Route = { method: string; pattern: RegExp; operation: string; hasBody?: boolean };

const PUSH = /^tasks\/[^/]+\/pushNotificationConfigs/;
const ROUTES: readonly Route[] = [
  { method: 'POST', pattern: /^message:send$/, operation: 'SendMessage', hasBody: true },
  { method: 'POST', pattern: /^message:stream$/, operation: 'SendStreamingMessage', hasBody: true },
  { method: 'GET', pattern: /^tasks$/, operation: 'ListTasks' },
  { method: 'POST', pattern: /^tasks\/([^/]+):cancel$/, operation: 'CancelTask' },
  { method: 'POST', pattern: /^tasks\/([^/]+):subscribe$/, operation: 'SubscribeToTask' },
  { method: 'GET', pattern: /^tasks\/([^/]+):subscribe$/, operation: 'SubscribeToTask' },
  { method: 'GET', pattern: /^tasks\/([^/:]+)$/, operation: 'GetTask' },
  { method: 'GET', pattern: /^extendedAgentCard$/, operation: 'GetExtendedAgentCard' },
  { method: 'POST', pattern: PUSH, operation: 'CreateTaskPushNotificationConfig' },
  { method: 'GET', pattern: PUSH, operation: 'ListTaskPushNotificationConfigs' },
];

async function operate(operations: Operations, method: string, params: unknown): Promise<Outcome> {
  const left = new AbortController();
  switch (method) {
    case 'SendMessage':
      return { value: await operations.send(parse(sendSchema, params)) };
    case 'SendStreamingMessage':
      return { stream: await operations.sendStream(parse(sendSchema, params), left.signal), left };
    case 'GetTask':
      return { value: await operations.get(parse(taskSchema, params)) };
    case 'ListTasks':
      return { value: await operations.list(parse(listSchema, params)) };
    case 'CancelTask':
      return { value: await operations.cancel(parse(taskSchema, params).id) };
    case 'SubscribeToTask':
      return { stream: await operations.subscribe(parse(taskSchema, params).id, left.signal), left };
    case 'GetExtendedAgentCard':
      throw new A2aError('no-extended-card', 'The agent has no extended card.');
    default:
      if (method.includes('PushNotificationConfig')) throw noPush();
      throw new A2aError('method-unknown', `There is no method "${method.slice(0, 100)}".`);
  }
}

function parse<Schema extends z.ZodType>(schema: Schema, params: unknown): z.output<Schema> {
  const parsed = schema.safeParse(params);
  if (parsed.success) return parsed.data;
  throw new A2aError('invalid-params', describeIssues(parsed.error.issues).message);
}

function assertVersion(c: Request): void {
  const version = c.req.header('a2a-version') ?? c.req.query('A2A-Version') ?? A2A_VERSION;
  if (version === A2A_VERSION) return;
  throw new A2aError('version', `This server speaks A2A ${A2A_VERSION}. Send "A2A-Version: ${A2A_VERSION}".`);
}

function asJson(request: globalThis.Request): globalThis.Request {
  if (!/^application\/a2a\+json\s*(;|$)/i.test(request.headers.get('content-type') ?? '')) return request;
  const headers = new Headers(request.headers);
  headers.set('content-type', 'application/json');
  return new Request(request, { headers });
}

function agentCard(agent: Agent, { url, hasToken }: { url: string; hasToken: boolean }): object {
  const { version, output, ...options } = agent.options;
  const description = options.description ?? `The agent "${agent.name}": give it a task in words.`;
  const outputModes = ['text/plain', ...(output === undefined ? [] : ['application/json'])];
  const bind = (protocolBinding: string) => ({ url, protocolBinding, protocolVersion: A2A_VERSION });
  const security = {
    securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
    securityRequirements: [{ schemes: { bearer: { list: [] } } }],
  };
  return {
    name: agent.name,
    description,
    version: version ?? '1',
    supportedInterfaces: [bind('JSONRPC'), bind('HTTP+JSON')],
    capabilities: { streaming: true, pushNotifications: false, extendedAgentCard: false },
    ...omitUndefined({ ...(hasToken && security) }),
    defaultInputModes: ['text/plain', 'application/json'],
    defaultOutputModes: outputModes,
    skills: [{ id: 'task', name: agent.name, description, tags: ['agent'], outputModes }],
  };
}

/**
 * Creates a handler of A2A 1.0: each agent at `…/a2a/NAME`, as JSON-RPC and REST, with its card below; the card of the
 * first agent also at `…/.well-known/agent-card.json`. Drives runs in this process, and resumes those whose process is
 * gone.
 *
 * @example
 * const handler = createA2aHandler(agent, { authorize });
 * app.all('/a2a/*', c => handler(c.req.raw)).get('/.well-known/*', c => handler(c.req.raw));
 */
export function createA2aHandler(agents: Agents, options: HandlerOptions = {}): Handler {
  refuseUnknownOptions('createA2aHandler', options, HANDLER_NAMES);
  const { authorize, log = warn } = options;
  const api = createA2aApi({ runs: serveRunsOf(agents, log), hasToken: authorize !== undefined, log });
  return handlerOf([api], options, { log });
}
