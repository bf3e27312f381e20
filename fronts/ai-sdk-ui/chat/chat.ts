// fronts/ai-sdk-ui/chat: the handler behind `useChat`: reading its requests and deciding what they mean for
// the run.

import * as z from 'zod/mini';
import { type Caller, personOf, signCommand } from '../../../access/caller.ts';
import { mayCommand } from '../../../access/role.ts';
import type { Agent } from '../../../agent/agent.ts';
import type { StartOptions } from '../../../agent/begin-journal.ts';
import type { Thread } from '../../../agent/thread.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { readJournal } from '../../../engine/journal/read-journal.ts';
import type { Run } from '../../../engine/run/run.ts';
import { digestCall, digestOf } from '../../../protocol/content/digest.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import type { Item, Part } from '../../../protocol/item.ts';
import { DEEPEST_JSON, isJsonObject, omitUndefined, toJson } from '../../../protocol/json.ts';
import { threadSchema } from '../../../protocol/listing/label.ts';
import { type Answer, callIdFor, commandFor } from '../../../protocol/open/answer.ts';
import { readAnswer } from '../../../protocol/open/answer-form.ts';
import type { Person } from '../../../protocol/run-command.ts';
import { isOpen, listAll, type RunLink, type RunRecord, type Store } from '../../../protocol/store.ts';
import { ApiError } from '../../../server/error-envelope.ts';
import { type BodyLimits, parseBounded, readText } from '../../../server/read-body.ts';
import { type BeginRun, beginFreely } from '../../../server/runs/begin-run.ts';
import { findThread } from '../../../server/runs/find-thread.ts';
import { openNow } from '../../../server/runs/run-registry.ts';
import { countMessages, findMessageIds } from '../messages.ts';
import { approvalOf, type PostedMessage, type PostedPart, toolPartsOf } from '../ui-message.ts';
import { approvalIdOf, REVIEW } from '../write-messages.ts';

/** The deepest nesting that a body may have: a tool result inside a part of a message. */
const MOST_DEPTH = DEEPEST_JSON + 10;

const text = (most: number) => z.string().check(z.minLength(1), z.maxLength(most));

const messageSchema = z.object({
  id: text(500),
  role: z.enum(['user', 'assistant', 'system']),
  parts: z.array(z.looseObject({ type: text(200) })).check(z.maxLength(10_000)),
});

const bodySchema = z.object({
  id: text(256).check(z.refine(isChatId)),
  messages: z.array(messageSchema).check(z.minLength(1), z.maxLength(10_000)),
  trigger: z.optional(z.enum(['submit-message', 'regenerate-message'])),
  messageId: z.optional(z.nullable(text(500))),
});

/** The body that `useChat` posts. Its history is not trusted: only decisions, results and the last message are read. */
export type ChatBody = z.infer<typeof bodySchema>;

export function isChatId(id: string): boolean {
  return threadSchema.safeParse(id).success;
}

export async function readChatBody(request: Request, { maxBytes }: BodyLimits): Promise<ChatBody> {
  const body = await readText(request, maxBytes, null);
  if (body === '')
    throw new ApiError(
      'input-invalid',
      'The body is empty. Mount the handler before a body parser such as express.json().',
    );
  const bounds = { maxDepth: MOST_DEPTH, maxValues: Number.POSITIVE_INFINITY };
  const parsed = bodySchema.safeParse(parseBounded(body, bounds));
  if (parsed.success) return parsed.data;
  const path = parsed.error.issues[0]?.path.join('.') ?? '';
  throw new ApiError(
    'input-invalid',
    `Expected what useChat posts: { id, messages, trigger }. Wrong or missing: ${path.slice(0, 200) || 'the body'}.`,
  );
}

const filePart = z.object({
  type: z.literal('file'),
  url: z.string().check(z.regex(/^(data:|https?:\/\/)/)),
  mediaType: text(200),
  filename: z.optional(text(500)),
});
const textPart = z.object({ type: z.literal('text'), text: z.string() });

export function toItem({ id, parts }: PostedMessage): Item {
  const content = parts.flatMap((part): Part[] => {
    if (part.type === 'text') return [textOf(part)];
    return part.type === 'file' ? [fileOf(part)] : [];
  });
  if (content.length === 0) throw new ApiError('input-invalid', 'The message has no text and no file.');
  return { type: 'message', role: 'user', id, content };
}

function textOf(part: unknown): Part {
  const parsed = textPart.safeParse(part);
  if (parsed.success) return parsed.data;
  throw new ApiError('input-invalid', 'A text part has no text.');
}

function fileOf(part: unknown): Part {
  const parsed = filePart.safeParse(part);
  if (!parsed.success)
    throw new ApiError('input-invalid', 'A file part needs a media type and a data:, http: or https: URL.');
  const { url, mediaType, filename } = parsed.data;
  if (mediaType.startsWith('image/')) return { type: 'image', url };
  return { type: 'file', url, mediaType, ...omitUndefined({ name: filename }) };
}

/** Options for the runs that a chat starts, as for `agent.start`. */
export type ChatStart = Omit<StartOptions, 'labels' | 'thread' | 'continues' | 'runId' | 'signal'>;

/** The place of a user message: its journal entry, and the number of the assistant message that follows it. */
type Place = { record: RunLink; entry: JournalEntry; number: number };

/** A thread that the caller sees. */
export class Chat {
  readonly #agent: Agent;
  readonly #caller: Caller;
  readonly #begin: BeginRun;
  readonly #thread: Thread;

  private constructor(agent: Agent, thread: Thread, caller: Caller, begin: BeginRun) {
    this.#begin = begin;
    this.#agent = agent;
    this.#caller = caller;
    this.#thread = thread;
  }

  /** Throws `input-invalid` for an id that no chat can have. */
  static async find(agent: Agent, id: string, caller: Caller, begin: BeginRun = beginFreely): Promise<Chat> {
    return new Chat(agent, await findThread(agent, id, caller), caller, begin);
  }

  get key(): string {
    const { id, labels } = this.#thread;
    return JSON.stringify([id, labels]);
  }

  get #by(): { as?: Person } {
    return omitUndefined({ as: personOf(this.#caller) });
  }

  get #store(): Store {
    return this.#agent.store;
  }

  /** The latest run, unless it is one of another agent that has ended: the next message continues that one. */
  async current(): Promise<RunRecord | undefined> {
    const latest = await this.#thread.latest();
    return latest === undefined || latest.agent === this.#agent.name || isOpen(latest) ? latest : undefined;
  }

  async open({ runId }: Pick<RunRecord, 'runId'>): Promise<Run> {
    return await this.#agent.open(runId, { labels: this.#caller.labels });
  }

  async works({ runId, status }: RunRecord): Promise<boolean> {
    if (status !== 'waiting') return status === 'running';
    for await (const child of listAll(this.#store, { parent: runId }))
      if (await this.works(child)) return true;
    return false;
  }

  /**
   * Applies the approvals, answers and results that a page has posted to the current run, one by one. An earlier decision
   * stays, and so does a call that was edited after the page got it; the response shows either. Returns the run, and what
   * the response needs: the message of it that the page has, and `faults`; `undefined` for a new chat.
   */
  async answer({ messages, messageId }: ChatBody) {
    const current = await this.current();
    if (current === undefined) return undefined;
    const run = await this.open(current);
    const idOf = await findMessageIds(this.#store, current);
    const count = 1 + countMessages(await readJournal(this.#store, run.id));
    const ids = Array.from({ length: count }, (_, index) => idOf(index + 1));
    const ofPage = new Map(
      (await openNow(run)).flatMap(open => (open.kind === 'result' ? [[callIdFor(run.id, open), open]] : [])),
    );
    const faults = new Map<string, string>();
    for (const { part, digest } of messages.flatMap(answeredPartsOf)) {
      if (digest !== undefined) {
        const fault = await this.#answerQuestions(run, part, digest);
        if (fault !== undefined) faults.set(digest, fault);
        continue;
      }
      const decision = decisionOf(part, ids);
      if (part.type === REVIEW_PART) {
        await this.#review(run, part, decision ?? changedAnswerOf(part));
        continue;
      }
      const open =
        decision === null
          ? ofPage.get(part.toolCallId)
          : { kind: 'approval' as const, ...(await this.#findCall(run, part.toolCallId)), ...shownIn(part) };
      const answer = decision ?? resultOf(part);
      if (open === undefined || answer === null) continue;
      const command = signCommand(commandFor(open, answer), this.#caller);
      if (mayCommand(this.#caller, command)) await run.submit([command]);
    }
    const page = messages.find(({ id }) => id === messageId) ?? messages.at(-1);
    const number = 1 + ids.indexOf(page?.id ?? '');
    const shown = page?.role === 'assistant' && number > 0 ? { page, number, faults } : {};
    return { run, shown };
  }

  /** Returns why the answer does not count, for the page; nothing if others have answered or something else is asked. */
  async #answerQuestions(
    run: Run,
    part: PostedPart & { toolCallId: string },
    digest: string,
  ): Promise<string | undefined> {
    if (part.preliminary === true) return undefined;
    const open = { kind: 'question', ...(await this.#findCall(run, part.toolCallId)), digest } as const;
    const answer = answerOf(part);
    if (answer === undefined) return undefined;
    if (answer === null) return 'Expected { answers: { KEY: VALUE } } as the output.';
    const command = signCommand(commandFor(open, answer), this.#caller);
    if (!mayCommand(this.#caller, command)) return undefined;
    const result = await run.submit([command]);
    return !result.accepted && FAULTS.has(result.code) ? result.message : undefined;
  }

  /** Decides the review of a part, if it is open. Throws `input-invalid` for an answer that cannot take its place. */
  async #review(run: Run, part: PostedPart & { toolCallId: string }, answer: Answer | null): Promise<void> {
    const found = await this.#findCall(run, part.toolCallId);
    const { review } =
      found.runId === run.id ? run.context : (await loadRun(this.#store, found.runId)).state.context;
    if (answer === null || review?.id !== found.callId) return;
    const open = { kind: 'review', ...found, ...answerShownIn(part) } as const;
    const command = signCommand(commandFor(open, answer), this.#caller);
    if (!mayCommand(this.#caller, command)) return;
    const result = await run.submit([command]);
    if (!result.accepted && result.code === 'input-invalid') throw new ApiError(result.code, result.message);
  }

  async send(item: Item, start: ChatStart & Pick<StartOptions, 'continues'>): Promise<Run> {
    const { id: thread, labels } = this.#thread;
    const options = { ...start, labels, thread };
    return await this.#begin(
      this.#caller,
      this.#agent,
      more => this.#agent.start([item], { ...options, ...more }),
      this.#thread,
    );
  }

  /** Replaces an earlier message, in a new run. The messages after it remain in the old runs. */
  async replace({ record, entry }: Place, item: Item, start: ChatStart): Promise<Run> {
    await this.#leave();
    if (entry.event.type === 'run.started')
      return await this.send(item, { ...start, continues: record.continues ?? null });
    return await this.#fork(record, { at: entry.seq - 1, message: [item] });
  }

  async regenerate({ record, entry }: Place): Promise<Run> {
    await this.#leave();
    return await this.#fork(record, { at: entry.seq });
  }

  /** Cancels the current run and waits until it has ended. Returns false if no run is active. */
  async stop(reason: string): Promise<boolean> {
    const current = await this.current();
    if (current === undefined || !isOpen(current)) return false;
    const run = await this.open(current);
    const { accepted } = await run.cancel({ reason, ...this.#by });
    if (accepted) await run.settled();
    return accepted;
  }

  /** The place of a user message, if there is one; runs older than that of message `after` are not read. */
  async find(messageId: string, after = ''): Promise<Place | undefined> {
    for await (const record of this.#runs()) {
      let number = 0;
      for (const entry of await readJournal(this.#store, record.runId)) {
        const items = itemsOf(entry);
        if (items !== undefined) number += 1;
        if (items?.some(item => item.id === messageId)) return { record, entry, number };
      }
      if (after.startsWith(`${record.runId}.`)) return undefined;
    }
    return undefined;
  }

  /** The newest first. What a page sends is mostly about that one, which needs no chain. */
  async *#runs(): AsyncGenerator<RunLink> {
    const current = await this.current();
    if (current === undefined) return;
    yield current;
    if (current.continues !== undefined)
      yield* (await this.#store.chain(current.runId)).toReversed().slice(1);
  }

  /** Finds the call of a part: a call of the run or, with the id `RUN/CALL`, of a sub-agent's run. */
  async #findCall(run: Run, toolCallId: string): Promise<{ callId: string; runId: string }> {
    const at = toolCallId.indexOf('/');
    const runId = toolCallId.slice(0, Math.max(at, 0));
    const isBelow = at > 0 && (await this.#store.get(runId))?.parent !== undefined;
    return isBelow ? { callId: toolCallId.slice(at + 1), runId } : { callId: toolCallId, runId: run.id };
  }

  async #leave(): Promise<void> {
    await this.stop('The chat was continued at an earlier message.');
  }

  async #fork(record: RunLink, options: Parameters<Run['fork']>[0]): Promise<Run> {
    const run = await this.open(record);
    const how = { ...options, inThread: true, ...this.#by };
    return drive(await this.#begin(this.#caller, this.#agent, () => run.fork(how)));
  }
}

/** Drives a fork in the background, because the reader of its answer may have disconnected. */
function drive(run: Run): Run {
  run.settled().catch(() => {});
  return run;
}

function itemsOf({ event }: JournalEntry): readonly Item[] | undefined {
  if (event.type === 'run.started') return event.input;
  return event.type === 'message.received' && event.from === undefined ? event.items : undefined;
}

function decisionOf(part: PostedPart & { toolCallId: string }, messageIds: readonly string[]): Answer | null {
  const { id, approved, reason } = approvalOf(part) ?? {};
  if (part.state !== 'approval-responded' || approved === undefined) return null;
  if (!messageIds.some(messageId => approvalIdOf(messageId, part.toolCallId) === id)) return null;
  return approved ? { type: 'approve' } : { type: 'reject', ...omitUndefined({ reason }) };
}

/** The parts of calls. `digest`: of the questions beside the call that the page shows as open. */
function answeredPartsOf({ role, parts }: PostedMessage) {
  if (role !== 'assistant') return [];
  const asked = new Map(parts.flatMap(part => (part.type === 'data-question' ? askedIn(part) : [])));
  return toolPartsOf(parts).map(part => ({ part, digest: asked.get(part.toolCallId) }));
}

function askedIn({ id, data }: PostedPart): [string, string][] {
  if (typeof id !== 'string' || !isJsonObject(data) || typeof data.digest !== 'string') return [];
  return Array.isArray(data.questions) && data.questions.length > 0 ? [[id, data.digest]] : [];
}

/** `undefined` without an answer, and `null` for an output that is none. */
function answerOf({ state, output, errorText }: PostedPart): Answer | null | undefined {
  if (state === 'output-available') return readAnswer('question', toJson(output));
  if (state !== 'output-error') return undefined;
  return { type: 'reject', ...(typeof errorText === 'string' && { reason: errorText }) };
}

/** The refusals of an answer that the page corrects. */
const FAULTS: ReadonlySet<string> = new Set(['input-invalid', 'not-allowed', 'expired']);

/** The digest of the call as the page shows it: a decision about another input does not count. */
function shownIn({ type, toolName, input }: PostedPart): { digest?: string } {
  const name = type === 'dynamic-tool' ? toolName : type.slice('tool-'.length);
  return input === undefined ? {} : { digest: digestCall(String(name), toJson(input)) };
}

const REVIEW_PART = `tool-${REVIEW}`;

/** The digest of the answer as the page shows it. */
function answerShownIn({ input }: PostedPart): { digest?: string } {
  const answer = isJsonObject(input) ? input.answer : undefined;
  return typeof answer === 'string' ? { digest: digestOf(answer) } : {};
}

/** An output of a review is the answer in its place; a preliminary one says who decides. */
function changedAnswerOf({ state, output, preliminary }: PostedPart): Answer | null {
  if (state !== 'output-available' || preliminary === true) return null;
  return { type: 'approve', answer: output ?? null };
}

function resultOf({ state, output, errorText }: PostedPart): Answer | null {
  if (state === 'output-available') return { type: 'result', output: output ?? null };
  if (state !== 'output-error') return null;
  return {
    type: 'result',
    output: typeof errorText === 'string' ? errorText : 'The call failed.',
    isError: true,
  };
}
