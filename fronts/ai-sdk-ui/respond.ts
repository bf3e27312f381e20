import { endOn } from '../../engine/events/stoppable.ts';
import { EVENT_STREAM_HEADERS, streamedBody } from '../../engine/events/streamed-body.ts';
import type { Run } from '../../engine/run/run.ts';
import { readStory } from '../../engine/story/read-story.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { ChunksForAiSdk6, nameNeeds } from './ai-sdk-6.ts';
import type { ResponseChunk } from './chunk.ts';
import { findMessageIds, UI_MESSAGE_NAMES, type UIMessageOptions } from './messages.ts';
import { PageFilter } from './page-filter.ts';
import type { AiSdkVersion, PostedMessage } from './ui-message.ts';
import { type DescribeError, describeSafely } from './ui-message.ts';
import { MessageWriter, type Placed } from './write-messages.ts';

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
  number?: number;
  /** The message that the page already has. Only missing chunks are sent. */
  page?: PostedMessage;
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
  { describeError, aiSdk, page, ...plan }: ResponsePlan,
  signal: AbortSignal,
): AsyncGenerator<ResponseChunk> {
  const { id: runId } = run;
  const { store, textFilters: filters } = run.source;
  const messageId = await findMessageIds(store, (await store.get(runId)) ?? { runId });
  let placed: Placed[] = [];
  const writer = new MessageWriter({ runId, store, messageId, describeError }, one => placed.push(one));
  let seq = 0;
  for (const event of await readStory(store, { runId, filters })) {
    await writer.take(event);
    if ('seq' in event) seq = event.seq;
  }
  const { number = writer.number } = plan;
  const isEarlier = number < writer.number;
  const before = placed.filter(({ message }) => message === number);
  const filter = page && new PageFilter(page, before, aiSdk);
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
