import { readJournal } from '../../../engine/journal/read-journal.ts';
import { EngineError } from '../../../protocol/error.ts';
import { type Labels, readLabels } from '../../../protocol/listing/label.ts';
import type { Agent } from '../../../tools/agent/agent.ts';
import { chatLabels } from '../../chat/find-chat.ts';
import type { UIMessage } from '../chunk.ts';
import { describeSafely } from '../describe-error.ts';
import { toUIMessages, type UIMessageOptions } from '../messages.ts';
import { countMessages, findMessageIds } from '../read-journal.ts';
import { respondWith } from '../respond.ts';
import { Chat, type ChatStart } from './chat.ts';
import { applyAnswers } from './decide.ts';
import { type ChatBody, ChatError, isChatId, readChatBody, toItem } from './read-request.ts';

/** The authenticated user of a chat. A caller sees only chats whose runs have its labels. */
export type ChatCaller = { name: string; role?: string; labels: Labels };

/** Options of `createChatHandler`. */
export type ChatHandlerOptions = UIMessageOptions & {
  /**
   * Authenticates a request; `null` refuses it with 401. Must not read the body. Default: every caller may use every
   * chat. A `viewer` may only read; an `approver` may only read and answer; a `client` may use `/v1` alone, no chat.
   */
  authorize?(request: Request): ChatCaller | null | Promise<ChatCaller | null>;
  /** Options for the runs of a chat, such as the agent's `runContext`. */
  start?(request: Request): ChatStart | Promise<ChatStart>;
  /** The size limit of a request body, in bytes. Default 16 MiB. `useChat` posts the full history. */
  bodyBytes?: number;
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
  const handler = new ChatHandler(agent, options);
  return request => handler.handle(request);
}

class ChatHandler {
  readonly #agent: Agent;
  readonly #options: ChatHandlerOptions;
  /** The requests in progress, by chat. Those of one chat are handled one after the other. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(agent: Agent, options: ChatHandlerOptions) {
    this.#agent = agent;
    this.#options = options;
  }

  async handle(request: Request): Promise<Response> {
    try {
      const caller = await this.#authorize(request);
      const path = new URL(request.url).pathname.split('/').filter(segment => segment !== '');
      if (request.method === 'GET') return await this.#read(path, caller);
      if (request.method === 'HEAD') return await withoutBody(await this.#read(path, caller));
      if (request.method !== 'POST') throw new ChatError(405, 'not-found', 'Send GET or POST.');
      if (caller?.role === 'viewer') throw new ChatError(403, 'forbidden', 'You may only read.');
      if (path.at(-1) === 'stop') {
        refuseApprover(caller);
        return await this.#stop(path, caller);
      }
      const body = await readChatBody(request, this.#options.bodyBytes ?? BODY_BYTES);
      const labels = labelsOf(body.id, caller);
      const start = (await this.#options.start?.(request)) ?? {};
      return await this.#inTurn(JSON.stringify(labels), () => this.#post(body, labels, { caller, start }));
    } catch (error) {
      return errorResponse(error);
    }
  }

  async #authorize(request: Request): Promise<ChatCaller | undefined> {
    const { authorize } = this.#options;
    if (authorize === undefined) return undefined;
    const caller = await authorize(request);
    if (caller?.role === 'client') throw new ChatError(403, 'forbidden', 'You may only use /v1.');
    if (caller !== null) return { ...caller, labels: readLabels(caller.labels) };
    throw new ChatError(401, 'unauthorized', 'Sign in first.');
  }

  async #read(path: readonly string[], caller: ChatCaller | undefined): Promise<Response> {
    const isResuming = path.at(-1) === 'stream';
    const chat = this.#chatIn(path.at(isResuming ? -2 : -1), caller);
    const current = await chat.current();
    if (!isResuming) {
      const messages = current && (await toUIMessages(await chat.open(current), this.#options));
      return Response.json(messages ?? [], { headers: { 'cache-control': 'no-store' } });
    }
    if (current === undefined || !(await chat.works(current))) return new Response(null, { status: 204 });
    return respondWith(await chat.open(current), { describeError: this.#describeError });
  }

  async #stop(path: readonly string[], caller: ChatCaller | undefined): Promise<Response> {
    const stopped = await this.#chatIn(path.at(-2), caller).stop('Stopped in the chat.');
    return Response.json({ stopped });
  }

  #chatIn(segment: string | undefined, caller: ChatCaller | undefined): Chat {
    const id = decode(segment ?? '');
    if (!isChatId(id)) throw new ChatError(404, 'not-found', 'There is no chat at this path.');
    return new Chat(this.#agent, labelsOf(id, caller), caller?.name);
  }

  async #post(
    body: ChatBody,
    labels: Labels,
    { caller, start }: { caller: ChatCaller | undefined; start: ChatStart },
  ): Promise<Response> {
    const chat = new Chat(this.#agent, labels, caller?.name);
    const describeError = this.#describeError;
    const last = body.messages.at(-1);
    const answers = last?.role !== 'user' || isAnswer(body);
    if (!answers) refuseApprover(caller);
    const answered = await this.#answer(chat, body, caller);
    if (answers) {
      if (answered !== undefined) return respondWith(answered.run, { describeError, ...answered.target });
      throw new ChatError(404, 'not-found', 'This chat has no run that waits for an answer.');
    }
    const place = await chat.find(last.id, body.messages.at(-2)?.id);
    if (body.trigger === 'regenerate-message') {
      if (place === undefined) throw new ChatError(404, 'not-found', 'This chat does not have the message.');
      return respondWith(await chat.regenerate(place), { describeError });
    }
    const isRepeated = place !== undefined && body.messageId !== last.id;
    if (isRepeated)
      return respondWith(await chat.open(place.record), { describeError, number: place.number });
    const item = toItem(last);
    const run = place === undefined ? await chat.send(item, start) : await chat.replace(place, item, start);
    const sent = await chat.find(last.id);
    return respondWith(run, { describeError, ...(sent?.record.runId === run.id && { number: sent.number }) });
  }

  /** Applies the decisions and results in the posted messages; `undefined` if the chat has no run. */
  async #answer(chat: Chat, { messages, messageId }: ChatBody, caller: ChatCaller | undefined) {
    const current = await chat.current();
    if (current === undefined) return undefined;
    const run = await chat.open(current);
    const { store } = run.source;
    const idOf = await findMessageIds(store, current);
    const count = 1 + countMessages(await readJournal(store, run.id));
    const ids = Array.from({ length: count }, (_, index) => idOf(index + 1));
    await applyAnswers(run, messages, ids, caller?.name);
    const page = messages.find(({ id }) => id === messageId) ?? messages.at(-1);
    const number = 1 + ids.indexOf(page?.id ?? '');
    const target = page?.role === 'assistant' && number > 0 ? { page: page as UIMessage, number } : {};
    return { run, target };
  }

  get #describeError() {
    return this.#options.onError ?? describeSafely;
  }

  async #inTurn(key: string, work: () => Promise<Response>): Promise<Response> {
    const before = this.#turns.get(key) ?? Promise.resolve();
    const done = before.then(work, work);
    this.#turns.set(key, done);
    try {
      return await done;
    } finally {
      if (this.#turns.get(key) === done) this.#turns.delete(key);
    }
  }
}

/** Throws a `ChatError` for an approver, which may answer but not start or stop runs. */
function refuseApprover(caller: ChatCaller | undefined): void {
  if (caller?.role === 'approver') throw new ChatError(403, 'forbidden', 'You may only answer.');
}

async function withoutBody({ status, headers, body }: Response): Promise<Response> {
  await body?.cancel();
  return new Response(null, { status, headers });
}

/** Whether a request answers an assistant message instead of adding a user message. */
function isAnswer({ messages, messageId, trigger }: ChatBody): boolean {
  return (
    trigger !== 'regenerate-message' &&
    messages.some(({ id, role }) => id === messageId && role === 'assistant')
  );
}

function labelsOf(chat: string, caller: ChatCaller | undefined): Labels {
  return chatLabels(chat, caller?.labels);
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return '';
  }
}

/** Converts an error to a response. Only refusals show their message; other errors show no details. */
function errorResponse(error: unknown): Response {
  if (error instanceof ChatError) return answerError(error.status, error.code, error.message);
  if (error instanceof EngineError && error.code === 'input-invalid')
    return answerError(400, error.code, error.message);
  return answerError(500, 'internal', 'The server failed on this request.');
}

function answerError(status: number, code: string, message: string): Response {
  return Response.json({ error: { code, message } }, { status, headers: { 'cache-control': 'no-store' } });
}
