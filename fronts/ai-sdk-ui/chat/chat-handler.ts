import type { Context, Hono } from 'hono';
import type { Caller } from '../../../access/caller.ts';
import { describeRole, mayCommand } from '../../../access/role.ts';
import type { Agent } from '../../../agent/agent.ts';
import { warn } from '../../../engine/host/host.ts';
import type { Run } from '../../../engine/run/run.ts';
import { KeyedMutex } from '../../../protocol/keyed-mutex.ts';
import { type NamesOf, refuseUnknownOptions } from '../../../protocol/options/refuse-unknown.ts';
import type { OpenItem } from '../../../protocol/run-view.ts';
import { type Agents, byPlainName, listAgents, partFor, pathBelow } from '../../../server/agent-names.ts';
import { ApiError } from '../../../server/error-envelope.ts';
import {
  HANDLER_NAMES,
  type Handler,
  type HandlerOptions,
  handlerOf,
  segmentsOf,
} from '../../../server/handler.ts';
import { answerRunsError, type MountedApi } from '../../../server/mounted-api.ts';
import type { RouteTable } from '../../../server/route.ts';
import type { BeginRun } from '../../../server/runs/begin-run.ts';
import type { RunsEnv } from '../../../server/runs-env.ts';
import { describeOthers } from '../../served/open-calls.ts';
import { readChatMessages } from '../messages.ts';
import { type ResponsePlan, respondWith, UI_RESPONSE_NAMES, type UIResponseOptions } from '../respond.ts';
import { describeSafely } from '../ui-message.ts';
import { Chat, type ChatBody, type ChatStart, isChatId, readChatBody, toItem } from './chat.ts';

/**
 * Options of `createChatHandler`. A caller is a `requester` unless `authorize` says otherwise: it writes in its own chats,
 * gives the results of the page's tools, answers what tools ask, and decides nothing. Only an `operator` may also edit and stop chats. A `viewer`
 * may only read; an `approver` may only read and answer; a `client` may use `/v1` alone, no chat.
 */
export type ChatHandlerOptions = UIResponseOptions &
  HandlerOptions & {
    /** Options for the runs of a chat, such as the agent's `runContext`. */
    start?(request: Request): ChatStart | Promise<ChatStart>;
  };

const NAMES: NamesOf<ChatHandlerOptions> = { ...UI_RESPONSE_NAMES, ...HANDLER_NAMES, start: true };

/**
 * The routes of chats on `agentchart serve`. What a POST may do depends on its body too.
 * @internal
 */
export const CHAT_ROUTES = {
  'POST /chat/:agent': {
    summary: 'Post to a chat of `useChat`.',
    right: ['send', 'result', 'decide'],
    streams: true,
  },
  'GET /chat/:agent/:chat': { summary: 'Read the messages of a chat.' },
  'GET /chat/:agent/:chat/stream': { summary: 'Resume the answer of a chat.', streams: true },
  'POST /chat/:agent/:chat/stop': { summary: 'Cancel the active run of a chat.' },
} as const satisfies RouteTable;

/**
 * Creates a handler for `useChat` of `@ai-sdk/react` with its default transport: POST, and GET `…/CHATID/stream` to
 * resume (204 if no run is active). GET `…/CHATID` returns the messages of a chat, and POST `…/CHATID/stop` cancels its
 * active run. Of several agents, each is below its name: `…/NAME`, `…/NAME/CHATID`. A chat is a thread of its caller: see `agent.thread`.
 * Closing a request does not cancel its run.
 *
 * @example
 * const handler = createChatHandler(agent);
 * new Hono().all('/api/chat/*', c => handler(c.req.raw)).post('/api/chat', c => handler(c.req.raw));
 */
export function createChatHandler(agents: Agents, options: ChatHandlerOptions = {}): Handler {
  refuseUnknownOptions('createChatHandler', options, NAMES);
  const { log = warn } = options;
  const api = createChatApi(agents, { ...options, log });
  const pathOf = (request: Request) => {
    const path = segmentsOf(request);
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    const isLonger = path.at(-1) === (isRead ? 'stream' : 'stop');
    return pathBelow('/chat', agents, path, isLonger ? 2 : Number(isRead));
  };
  return handlerOf([api], options, { log, pathOf });
}

type ChatApiOptions = Omit<ChatHandlerOptions, keyof HandlerOptions> & {
  begin?: BeginRun;
  log(line: string): void;
};

/**
 * Chats of the agents at `/chat/NAME`.
 * @internal
 */
export function createChatApi(agents: Agents, { log, ...options }: ChatApiOptions): MountedApi {
  const named = byPlainName(listAgents(agents));
  const chats = new Map([...named].map(([name, agent]) => [name, new Chats(agent, options)]));
  const find = (c: Context<RunsEnv>) => partFor(chats, c.req.param('agent'));
  return {
    prefix: '/chat',
    paths: ['/chat'],
    area: 'runs',
    routes: CHAT_ROUTES,
    add(app: Hono<RunsEnv>) {
      app.post('/chat/:agent', async c => {
        const body = await readChatBody(c.req.raw, c.get('requestLimits'));
        return await find(c).post(body, c.get('caller'), c.req.raw);
      });
      app.get('/chat/:agent/:chat', c => find(c).read(c.req.param('chat'), c.get('caller')));
      app.get('/chat/:agent/:chat/stream', c => find(c).resume(c.req.param('chat'), c.get('caller')));
      app.post('/chat/:agent/:chat/stop', c => find(c).stop(c.req.param('chat'), c.get('caller')));
    },
    answerError: (c, error) => answerRunsError(c, error, log),
  };
}

class Chats {
  readonly #agent: Agent;
  readonly #options: Omit<ChatApiOptions, 'log'>;
  readonly #mutex = new KeyedMutex();

  constructor(agent: Agent, options: Omit<ChatApiOptions, 'log'>) {
    this.#agent = agent;
    this.#options = options;
  }

  async post(body: ChatBody, caller: Caller, request: Request): Promise<Response> {
    if (!isAnswer(body)) assertMay(caller, 'send');
    const chat = await this.#chat(body.id, caller);
    const start = (await this.#options.start?.(request)) ?? {};
    return await this.#mutex.run(chat.key, () => this.#post(body, chat, start, caller));
  }

  async read(id: string, caller: Caller): Promise<Response> {
    const chat = await this.#chat(id, caller);
    const current = await chat.current();
    const run = current && (await chat.open(current));
    const messages =
      run &&
      (await readChatMessages(run, {
        describeError: this.#describeError,
        othersFor: call => describeOthers(caller, run.context.people, call),
      }));
    return Response.json(messages ?? [], { headers: { 'cache-control': 'no-store' } });
  }

  async resume(id: string, caller: Caller): Promise<Response> {
    const chat = await this.#chat(id, caller);
    const current = await chat.current();
    if (current === undefined || !(await chat.works(current))) return new Response(null, { status: 204 });
    return this.#respond(await chat.open(current), caller);
  }

  async stop(id: string, caller: Caller): Promise<Response> {
    const chat = await this.#chat(id, caller);
    return Response.json({ stopped: await chat.stop('Stopped in the chat.') });
  }

  async #chat(id: string, caller: Caller): Promise<Chat> {
    if (!isChatId(id)) throw new ApiError('not-found', 'There is no chat at this path.');
    return await Chat.find(this.#agent, id, caller, this.#options.begin);
  }

  async #post(body: ChatBody, chat: Chat, start: ChatStart, caller: Caller): Promise<Response> {
    const last = body.messages.at(-1);
    if (body.trigger === 'regenerate-message') assertMay(caller, 'fork');
    const answered = await chat.answer(body);
    if (last === undefined || isAnswer(body)) {
      if (answered !== undefined) return this.#respond(answered.run, caller, answered.shown);
      throw new ApiError('not-found', 'This chat has no run that waits for an answer.');
    }
    const place = await chat.find(last.id, body.messages.at(-2)?.id);
    if (body.trigger === 'regenerate-message') {
      if (place === undefined) throw new ApiError('not-found', 'This chat does not have the message.');
      return this.#respond(await chat.regenerate(place), caller);
    }
    const isRepeated = place !== undefined && body.messageId !== last.id;
    if (place !== undefined && !isRepeated) assertMay(caller, 'fork');
    if (isRepeated) return this.#respond(await chat.open(place.record), caller, { number: place.number });
    const item = toItem(last);
    const run = place === undefined ? await chat.send(item, start) : await chat.replace(place, item, start);
    const sent = await chat.find(last.id);
    return this.#respond(run, caller, sent?.record.runId === run.id ? { number: sent.number } : {});
  }

  get #describeError() {
    return this.#options.onError ?? describeSafely;
  }

  #respond(run: Run, caller: Caller, shown: Pick<ResponsePlan, 'page' | 'number'> = {}): Response {
    const { aiSdk = 7 } = this.#options;
    const othersFor = (open: OpenItem) => describeOthers(caller, run.context.people, open);
    return respondWith(run, { describeError: this.#describeError, othersFor, aiSdk, ...shown });
  }
}

function assertMay(caller: Caller, type: Parameters<typeof mayCommand>[1]['type']): void {
  if (!mayCommand(caller, { type })) throw new ApiError('forbidden', describeRole(caller));
}

function isAnswer({ messages, messageId, trigger }: ChatBody): boolean {
  if (messages.at(-1)?.role !== 'user') return true;
  return (
    trigger !== 'regenerate-message' &&
    messages.some(({ id, role }) => id === messageId && role === 'assistant')
  );
}
