import { type Authorize, type Caller, callerOf } from '../../../access/caller.ts';
import { describeRole, may, mayCommand } from '../../../access/role.ts';
import type { Run } from '../../../engine/run/run.ts';
import { warn } from '../../../engine/warn.ts';
import { EngineError } from '../../../protocol/error.ts';
import { KeyedMutex } from '../../../protocol/keyed-mutex.ts';
import { type NamesOf, refuseUnknownOptions } from '../../../protocol/options/refuse-unknown.ts';
import type { Agent } from '../../../tools/agent/agent.ts';
import { describeSafely } from '../describe-error.ts';
import { toUIMessages } from '../messages.ts';
import { type ResponsePlan, respondWith, UI_RESPONSE_NAMES, type UIResponseOptions } from '../respond.ts';

import { Chat, type ChatStart } from './chat.ts';
import { type ChatBody, ChatError, isChatId, readChatBody, toItem } from './read-request.ts';

/** Options of `createChatHandler`. */
export type ChatHandlerOptions = UIResponseOptions & {
  /**
   * Authenticates a request: returns `{ name, role, labels? }`, or `null` to answer 401. New runs get the labels, and a
   * caller sees only chats whose runs have them. A `viewer` may only read; an `approver` may only read and answer; a
   * `client` may use `/v1` alone, no chat. Default: every caller may use every chat.
   */
  authorize?: Authorize;
  /** Options for the runs of a chat, such as the agent's `runContext`. */
  start?(request: Request): ChatStart | Promise<ChatStart>;
  /** The size limit of a request body, in bytes. Default 16 MiB. `useChat` posts the full history. */
  bodyBytes?: number;
  /** Receives one line per failed request, for the operator. Default: a warning of the process. */
  log?(line: string): void;
};

const NAMES: NamesOf<ChatHandlerOptions> = {
  ...UI_RESPONSE_NAMES,
  authorize: true,
  start: true,
  bodyBytes: true,
  log: true,
};

const BODY_BYTES = 16 * 1024 * 1024;

/**
 * Creates a handler for `useChat` of `@ai-sdk/react` with its default transport: POST, and GET `…/CHATID/stream` to
 * resume (204 if no run is active). GET `…/CHATID` returns the messages of a chat, and POST `…/CHATID/stop` cancels its
 * active run. A chat's runs have the label `chat`. Closing a request does not cancel its run.
 *
 * @example
 * const handler = createChatHandler(agent);
 * new Hono().all('/api/chat/*', c => handler(c.req.raw)).post('/api/chat', c => handler(c.req.raw));
 */
export function createChatHandler(
  agent: Agent,
  options: ChatHandlerOptions = {},
): (request: Request) => Promise<Response> {
  refuseUnknownOptions('createChatHandler', options, NAMES);
  const handler = new ChatHandler(agent, options);
  return request => handler.handle(request);
}

class ChatHandler {
  readonly #agent: Agent;
  readonly #options: ChatHandlerOptions;
  /** The requests of one chat are handled one after the other. */
  readonly #mutex = new KeyedMutex();

  constructor(agent: Agent, options: ChatHandlerOptions) {
    this.#agent = agent;
    this.#options = options;
  }

  async handle(request: Request): Promise<Response> {
    try {
      const caller = await callerOf(request, this.#options.authorize);
      if (caller === null) throw new ChatError(401, 'unauthorized', 'Sign in first.');
      if (!may(caller, 'read')) throw forbidden(caller);
      const path = new URL(request.url).pathname.split('/').filter(segment => segment !== '');
      if (request.method === 'GET') return await this.#read(path, caller);
      if (request.method === 'HEAD') return await withoutBody(await this.#read(path, caller));
      if (request.method !== 'POST') throw new ChatError(405, 'not-found', 'Send GET or POST.');
      if (path.at(-1) === 'stop') {
        assertMay(caller, 'cancel');
        return await this.#stop(path, caller);
      }
      assertMay(caller, 'answer');
      const body = await readChatBody(request, this.#options.bodyBytes ?? BODY_BYTES);
      if (!isAnswer(body)) assertMay(caller, 'send');
      const chat = new Chat(this.#agent, body.id, caller);
      const start = (await this.#options.start?.(request)) ?? {};
      return await this.#mutex.run(chat.key, () => this.#post(body, chat, start));
    } catch (error) {
      return this.#refuse(error);
    }
  }

  /** Converts an error to a response. Only refusals show their message; other errors show no details and are logged. */
  #refuse(error: unknown): Response {
    if (error instanceof ChatError) return answerError(error.status, error.code, error.message);
    if (error instanceof EngineError && error.code === 'input-invalid')
      return answerError(400, error.code, error.message);
    const { log = warn } = this.#options;
    log(`A chat request failed: ${error instanceof Error ? error.stack : error}`);
    return answerError(500, 'internal', 'The server failed on this request.');
  }

  async #read(path: readonly string[], caller: Caller): Promise<Response> {
    const isResuming = path.at(-1) === 'stream';
    const chat = this.#chatIn(path.at(isResuming ? -2 : -1), caller);
    const current = await chat.current();
    if (!isResuming) {
      const messages =
        current && (await toUIMessages(await chat.open(current), { onError: this.#describeError }));
      return Response.json(messages ?? [], { headers: { 'cache-control': 'no-store' } });
    }
    if (current === undefined || !(await chat.works(current))) return new Response(null, { status: 204 });
    return this.#respond(await chat.open(current));
  }

  async #stop(path: readonly string[], caller: Caller): Promise<Response> {
    const stopped = await this.#chatIn(path.at(-2), caller).stop('Stopped in the chat.');
    return Response.json({ stopped });
  }

  #chatIn(segment: string | undefined, caller: Caller): Chat {
    const id = decode(segment ?? '');
    if (!isChatId(id)) throw new ChatError(404, 'not-found', 'There is no chat at this path.');
    return new Chat(this.#agent, id, caller);
  }

  async #post(body: ChatBody, chat: Chat, start: ChatStart): Promise<Response> {
    const last = body.messages.at(-1);
    const answered = await chat.answer(body);
    if (last === undefined || isAnswer(body)) {
      if (answered !== undefined) return this.#respond(answered.run, answered.shown);
      throw new ChatError(404, 'not-found', 'This chat has no run that waits for an answer.');
    }
    const place = await chat.find(last.id, body.messages.at(-2)?.id);
    if (body.trigger === 'regenerate-message') {
      if (place === undefined) throw new ChatError(404, 'not-found', 'This chat does not have the message.');
      return this.#respond(await chat.regenerate(place));
    }
    const isRepeated = place !== undefined && body.messageId !== last.id;
    if (isRepeated) return this.#respond(await chat.open(place.record), { number: place.number });
    const item = toItem(last);
    const run = place === undefined ? await chat.send(item, start) : await chat.replace(place, item, start);
    const sent = await chat.find(last.id);
    return this.#respond(run, sent?.record.runId === run.id ? { number: sent.number } : {});
  }

  get #describeError() {
    return this.#options.onError ?? describeSafely;
  }

  #respond(run: Run, shown: Pick<ResponsePlan, 'page' | 'number'> = {}): Response {
    const { aiSdk = 7 } = this.#options;
    return respondWith(run, { describeError: this.#describeError, aiSdk, ...shown });
  }
}

/** Throws a `ChatError` if the caller's role may not submit a command of this type. */
function assertMay(caller: Caller, command: string): void {
  if (!mayCommand(caller, command)) throw forbidden(caller);
}

function forbidden(caller: Caller): ChatError {
  return new ChatError(403, 'forbidden', describeRole(caller));
}

async function withoutBody({ status, headers, body }: Response): Promise<Response> {
  await body?.cancel();
  return new Response(null, { status, headers });
}

/** Whether a request answers an assistant message instead of adding a user message. */
function isAnswer({ messages, messageId, trigger }: ChatBody): boolean {
  if (messages.at(-1)?.role !== 'user') return true;
  return (
    trigger !== 'regenerate-message' &&
    messages.some(({ id, role }) => id === messageId && role === 'assistant')
  );
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return '';
  }
}

function answerError(status: number, code: string, message: string): Response {
  return Response.json({ error: { code, message } }, { status, headers: { 'cache-control': 'no-store' } });
}
