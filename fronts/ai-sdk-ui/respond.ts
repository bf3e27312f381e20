import { endOn } from '../../engine/events/stoppable.ts';
import { EVENT_STREAM_HEADERS, streamedBody } from '../../engine/events/streamed-body.ts';
import type { Run } from '../../engine/run/run.ts';
import { readStory } from '../../engine/story/read-story.ts';
import { canonicalJson, omitUndefined, toJson } from '../../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { type ContentChunk, isToolChunk, type ResponseChunk, type ToolChunk } from './chunk.ts';
import {
  findMessageIds,
  foldMessage,
  lastStepAt,
  UI_MESSAGE_NAMES,
  type UIMessageOptions,
} from './messages.ts';
import {
  type AiSdkVersion,
  approvalOf,
  type DescribeError,
  describeSafely,
  type OthersFor,
  type PostedApproval,
  type PostedMessage,
  type PostedPart,
  toolPartsOf,
} from './ui-message.ts';
import { MessageWriter, type Placed, REVIEW } from './write-messages.ts';

const HEADERS = {
  ...EVENT_STREAM_HEADERS,
  'cache-control': 'no-store',
  'x-vercel-ai-ui-message-stream': 'v1',
};

/** Options of `toUIMessageResponse`. */
export type UIResponseOptions = UIMessageOptions & {
  /**
   * The major version of the AI SDK in the page; `useChat` does not send it. Default 7. Pages with AI SDK 6 fail on some
   * chunks of 7: with 6 they get none, calls appear once they are complete, and text of a failed attempt stays in their
   * message until it is loaded again.
   */
  aiSdk?: AiSdkVersion;
};

export const UI_RESPONSE_NAMES: NamesOf<UIResponseOptions> = { ...UI_MESSAGE_NAMES, aiSdk: true };

/**
 * Streams the current message of a run from its beginning, as a UI message stream, until the run rests or has ended.
 * Drives the run unless another process does. Closing the response does not cancel the run.
 *
 * @example
 * const run = await agent.start(text);
 * return toUIMessageResponse(run);
 */
export function toUIMessageResponse(run: Run, options: UIResponseOptions = {}): Response {
  refuseUnknownOptions('toUIMessageResponse', options, UI_RESPONSE_NAMES, 'input-invalid');
  const { onError = describeSafely, aiSdk = 7 } = options;
  return respondWith(run, { describeError: onError, aiSdk });
}

export type ResponsePlan = {
  describeError: DescribeError;
  aiSdk: AiSdkVersion;
  othersFor?: OthersFor;
  number?: number;
  /** The message that the page already has. Only missing chunks are sent. */
  page?: PostedMessage;
  /** Why answers that the page has just given do not count, by the digests of their questions. */
  faults?: ReadonlyMap<string, string>;
};

/** Drives the run unless another process does. Ends early if the run receives another message. */
export function respondWith(run: Run, plan: ResponsePlan): Response {
  const { aiSdk, describeError } = plan;
  const rewritten = aiSdk === 6 ? new ChunksForAiSdk6() : undefined;
  const write = (chunk: ResponseChunk) => `data: ${JSON.stringify(nameNeeds(chunk))}\n\n`;
  const closing = new AbortController();
  const body = streamedBody(streamMessage(run, plan, closing.signal), {
    frame: chunk => (rewritten?.take(chunk) ?? [chunk]).map(write).join(''),
    keepAlive: { text: ': keep-alive\n\n', host: run.source.host },
    end: 'data: [DONE]\n\n',
    failed: () =>
      write({ type: 'error', errorText: describeError({ type: 'run', code: 'interrupted', message: '' }) }),
    leave: () => closing.abort(),
  });
  return new Response(body, { headers: HEADERS });
}

async function* streamMessage(
  run: Run,
  { describeError, othersFor, aiSdk, page, ...plan }: ResponsePlan,
  signal: AbortSignal,
): AsyncGenerator<ResponseChunk> {
  const { id: runId } = run;
  const { store, textFilters: filters } = run.source;
  const messageId = await findMessageIds(store, (await store.get(runId)) ?? { runId });
  let placed: Placed[] = [];
  const writer = new MessageWriter(
    { runId, store, messageId, describeError, ...omitUndefined({ othersFor }) },
    one => placed.push(one),
  );
  let seq = 0;
  for (const event of await readStory(store, { runId, filters })) {
    await writer.take(event);
    if ('seq' in event) seq = event.seq;
  }
  placed = withoutDropped(placed);
  const { number = writer.number } = plan;
  const isEarlier = number < writer.number;
  const before = placed.filter(({ message }) => message === number);
  const filter = page && new PageFilter(page, before, aiSdk, plan.faults);
  const pass = (one: Placed) => filter?.take(one, number) ?? [one.chunk];

  yield { type: 'start', messageId: messageId(number) };
  yield* filter?.begin() ?? [];
  yield* before.flatMap(pass);
  // A page that has an earlier message gets the rest of the run in that message.
  if (filter) yield* placed.filter(({ message, isCopy }) => message > number && !isCopy).flatMap(pass);
  const story = endOn(run.story({ after: seq, settle: true }), signal);
  placed = [];
  for await (const event of story) {
    await writer.take(event);
    const hasEnded = !isEarlier && writer.number > number;
    for (const one of placed)
      if (hasEnded ? one.message === number : !one.isCopy) for (const chunk of pass(one)) yield chunk;
    if (hasEnded) {
      yield { type: 'finish', finishReason: 'other' };
      return;
    }
    placed = [];
  }
  const end = await writer.end();
  yield* placed.filter(({ isCopy }) => !isCopy).flatMap(pass);
  yield* end;
}

/** Leaves out what a `reset-step` drops, and the `reset-step`. */
function withoutDropped(placed: readonly Placed[]): Placed[] {
  const kept: Placed[] = [];
  for (const one of placed) {
    kept.push(one);
    if (one.chunk.type !== 'reset-step') continue;
    const begin = kept.findLastIndex(({ chunk }) => chunk.type === 'start-step');
    const staying = ({ isCopy, chunk }: Placed) => isCopy || chunk.type === 'data-run';
    kept.push(...kept.splice(begin + 1).filter(staying));
  }
  return kept;
}

type ToolInput = Extract<ResponseChunk, { type: 'tool-input-available' }>;

const NEEDS = 'AI SDK 7 in the page. For a page with AI SDK 6, set the option aiSdk: 6 of createChatHandler.';

/**
 * Rewrites the chunks of one response for AI SDK 6 (read in ai@6.0.326). Its `useChat` fails on `reset-step`, on
 * `tool-approval-response` and on the finish reason `interrupted`.
 *
 * V1 It cannot drop parts: the text of a failed attempt stays, as a part of its own, and calls appear once they are
 *    complete.
 * V2 An empty step stands for `interrupted`: a page that posts finished calls by itself looks only at the last step.
 */
class ChunksForAiSdk6 {
  readonly #texts = new Map<string, 'text' | 'reasoning'>();
  #state: ResponseChunk[] = [];
  readonly #inputs = new Map<string, ToolInput>();

  take(chunk: ResponseChunk): ResponseChunk[] {
    switch (chunk.type) {
      case 'tool-approval-response': {
        const input = chunk.approved ? this.#inputs.get(chunk.toolCallId) : undefined;
        return input === undefined ? [] : [input];
      }
      case 'tool-input-start':
      case 'tool-input-delta':
        return [];
      case 'reset-step':
        return this.#closeTexts();
      case 'finish':
        if (chunk.finishReason !== 'interrupted') return [chunk];
        // `useChat` shows the new step with the next chunk that changes a part.
        return [{ type: 'start-step' }, ...this.#state, { type: 'finish', finishReason: 'other' }];
      default:
        this.#follow(chunk);
        return [chunk];
    }
  }

  #follow(chunk: ResponseChunk): void {
    switch (chunk.type) {
      case 'text-start':
      case 'reasoning-start':
        this.#texts.set(chunk.id, chunk.type === 'text-start' ? 'text' : 'reasoning');
        return;
      case 'text-end':
      case 'reasoning-end':
        this.#texts.delete(chunk.id);
        return;
      case 'tool-input-available':
        this.#inputs.set(chunk.toolCallId, chunk);
        return;
      case 'data-run':
        this.#state = [chunk];
        return;
    }
  }

  #closeTexts(): ResponseChunk[] {
    const ends = [...this.#texts].map(([id, type]) => ({ type: `${type}-end` as const, id }));
    this.#texts.clear();
    return ends;
  }
}

/** The error that a page with AI SDK 6 shows has the text of the chunk. AI SDK 7 ignores the member. */
function nameNeeds(chunk: ResponseChunk): ResponseChunk & { needs?: string } {
  const isNew =
    chunk.type === 'reset-step' ||
    chunk.type === 'tool-approval-response' ||
    (chunk.type === 'finish' && chunk.finishReason === 'interrupted');
  return isNew ? { ...chunk, needs: NEEDS } : chunk;
}

/**
 * Selects the chunks that a page still needs for a message that it has posted. The AI SDK adds a response to the
 * existing message, so texts and inputs that the page has are left out and the outcomes of its calls are sent. A call
 * whose input was edited is sent again.
 *
 * F1 If the texts of the page's last step differ from the run's, or it has a review that the run has dropped, the step is
 *    sent again, after `reset-step`.
 * F2 The answer to an approval request uses the request id that the page has. It is left out if the page has given it.
 * F3 A call that the page has given an output as the answer to its questions has none, until its own one comes.
 * F4 AI SDK 6 keeps the text of failed attempts before that of the run, and has an empty step at the end of some
 *    responses (`ChunksForAiSdk6`).
 */
class PageFilter {
  readonly #calls = new Map<string, { input: string; approval: PostedApproval | undefined }>();
  readonly #replaced = new Set<ContentChunk>();
  readonly #steps: number;
  readonly #isReset: boolean;
  readonly #answered: ToolInput[];
  readonly #faults: ReadonlyMap<string, string>;

  constructor(
    page: PostedMessage,
    placed: readonly Placed[],
    aiSdk: AiSdkVersion,
    faults: ReadonlyMap<string, string> = new Map(),
  ) {
    this.#faults = faults;
    const parts = aiSdk === 6 ? withoutEmptySteps(page.parts) : page.parts;
    const has = parts.filter(({ type }) => type === 'step-start').length;
    const known = foldMessage(
      page.id,
      placed.flatMap(({ step, chunk }) => (step <= has ? [chunk] : [])),
    );
    const texts = textsOf(known.parts);
    const ofPage = textsOf(parts);
    const compared = aiSdk === 6 ? ofPage.slice(Math.max(0, ofPage.length - texts.length)) : ofPage;
    const isTextSame = JSON.stringify(texts) === JSON.stringify(compared);
    const ofRun = new Set(reviewsOf(known.parts));
    this.#isReset = has > 0 && !(isTextSame && reviewsOf(parts).every(id => ofRun.has(id)));
    this.#steps = this.#isReset ? has - 1 : has;
    const kept = this.#isReset ? parts.slice(0, lastStepAt(parts)) : parts;
    const asking = new Set(placed.flatMap(({ chunk }) => (chunk.type === 'data-question' ? [chunk.id] : [])));
    this.#answered = toolPartsOf(parts.slice(lastStepAt(parts))).flatMap(
      ({ type, toolCallId, state, input }) =>
        asking.has(toolCallId) && (state === 'output-available' || state === 'output-error')
          ? [{ type: 'tool-input-available', toolCallId, toolName: type.slice('tool-'.length), input }]
          : [],
    );
    const inputs = new Map<string, ContentChunk>();
    for (const { chunk } of placed) {
      if (chunk.type !== 'tool-input-available') continue;
      const before = inputs.get(chunk.toolCallId);
      if (before !== undefined) this.#replaced.add(before);
      inputs.set(chunk.toolCallId, chunk);
    }
    for (const part of toolPartsOf(kept))
      this.#calls.set(part.toolCallId, { input: textOf(part.input), approval: approvalOf(part) });
  }

  begin(): ContentChunk[] {
    return this.#isReset ? [{ type: 'reset-step' }] : this.#answered;
  }

  /** The page's message has the `number`; it has nothing of later ones. */
  take({ message, step, chunk }: Placed, number: number): ContentChunk[] {
    if (isToolChunk(chunk)) return this.#takeTool(chunk);
    if (chunk.type === 'data-question') {
      const fault = chunk.data.questions.length > 0 ? this.#faults.get(chunk.data.digest) : undefined;
      return [{ ...chunk, data: { ...chunk.data, ...omitUndefined({ fault }) } }];
    }
    if (message > number || chunk.type === 'data-run' || chunk.type === 'data-progress') return [chunk];
    if (step <= this.#steps) return [];
    return this.#isReset && chunk.type === 'start-step' && step === this.#steps + 1 ? [] : [chunk];
  }

  #takeTool(chunk: ToolChunk): ContentChunk[] {
    const known = this.#calls.get(chunk.toolCallId);
    if (known === undefined) return [chunk];
    const { approval } = known;
    switch (chunk.type) {
      case 'tool-input-start':
      case 'tool-input-delta':
      case 'tool-input-error':
        return [];
      case 'tool-input-available': {
        const input = textOf(chunk.input);
        if (input === known.input || this.#replaced.has(chunk)) return [];
        this.#calls.set(chunk.toolCallId, { input, approval: undefined });
        return [chunk];
      }
      case 'tool-approval-request':
        if (approval !== undefined) return [];
        known.approval = { id: chunk.approvalId };
        return [chunk];
      case 'tool-approval-response':
        if (approval === undefined || isSameAnswer(approval, chunk)) return [];
        return [{ ...chunk, approvalId: approval.id }];
      default:
        return [chunk];
    }
  }
}

function textOf(input: unknown): string {
  return canonicalJson(toJson(input));
}

function isSameAnswer(
  { approved, reason }: PostedApproval,
  answer: { approved: boolean; reason?: string },
): boolean {
  return approved === answer.approved && (answer.reason === undefined || answer.reason === reason);
}

function withoutEmptySteps(parts: readonly PostedPart[]): PostedPart[] {
  return parts.filter(
    ({ type }, at) => type !== 'step-start' || (parts[at + 1]?.type ?? 'step-start') !== 'step-start',
  );
}

/** The reviews in the last step, without those of sub-agents: their ids have the run in front. */
function reviewsOf(parts: readonly { type: string; toolCallId?: unknown }[]): string[] {
  return parts.slice(lastStepAt(parts)).flatMap(({ type, toolCallId }) => {
    const isOwn = type === `tool-${REVIEW}` && typeof toolCallId === 'string' && !toolCallId.includes('/');
    return isOwn ? [toolCallId] : [];
  });
}

function textsOf(parts: readonly { type: string; text?: unknown; state?: unknown }[]): unknown[] {
  return parts.slice(lastStepAt(parts)).flatMap(({ type, text, state }) => {
    if (type === 'text' || type === 'reasoning') return [[type, text]];
    return state === 'input-streaming' ? [['streaming']] : [];
  });
}
