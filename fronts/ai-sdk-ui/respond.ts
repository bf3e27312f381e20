import type { Run } from '../../engine/run/run.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { type AiSdkVersion, ChunksForAiSdk6, nameNeeds } from './ai-sdk-6.ts';
import type { UIMessageChunk } from './chunk.ts';
import { describeSafely } from './describe-error.ts';
import { UI_MESSAGE_NAMES, type UIMessageOptions } from './messages.ts';
import { type StreamOptions, streamMessage } from './stream-message.ts';

/** The interval of keep-alive comments on an idle stream, in ms. */
const KEEP_ALIVE_MS = 15_000;

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-vercel-ai-ui-message-stream': 'v1',
  'x-accel-buffering': 'no',
};

/** Options of `toUIMessageResponse`. */
export type UIResponseOptions = UIMessageOptions & {
  /**
   * The major version of the AI SDK in the page; `useChat` does not send it. Default 7. Pages with AI SDK 6 fail on some
   * chunks of 7: with 6 they get none, and text of a failed attempt stays in their message until it is loaded again.
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

/** Sends the chunks of `streamMessage` as server-sent events, at the reader's pace. */
export function respondWith(run: Run, options: Omit<StreamOptions, 'signal'>): Response {
  const { host } = run.source;
  const closing = new AbortController();
  const streamed = endingInError(streamMessage(run, { ...options, signal: closing.signal }), options);
  const chunks = options.aiSdk === 6 ? forAiSdk6(streamed) : streamed;
  const encoder = new TextEncoder();
  let next: Promise<IteratorResult<UIMessageChunk>> | null = null;
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        next ??= chunks.next();
        let cancel = () => {};
        const quiet = new Promise<null>(resolve => {
          cancel = host.setTimer(KEEP_ALIVE_MS, () => resolve(null), { keepAlive: false });
        });
        const step = await Promise.race([next, quiet]).finally(() => cancel());
        if (step === null) return controller.enqueue(encoder.encode(': keep-alive\n\n'));
        next = null;
        controller.enqueue(encoder.encode(step.done === true ? 'data: [DONE]\n\n' : frame(step.value)));
        if (step.done === true) controller.close();
      },
      cancel() {
        closing.abort();
        void chunks.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers: HEADERS });
}

/** Ends the stream with an `error` chunk if reading the run fails. */
async function* endingInError(
  chunks: AsyncGenerator<UIMessageChunk>,
  { describeError }: StreamOptions,
): AsyncGenerator<UIMessageChunk> {
  try {
    yield* chunks;
  } catch {
    yield { type: 'error', errorText: describeError({ type: 'run', code: 'interrupted', message: '' }) };
  }
}

async function* forAiSdk6(chunks: AsyncGenerator<UIMessageChunk>): AsyncGenerator<UIMessageChunk> {
  const rewritten = new ChunksForAiSdk6();
  for await (const chunk of chunks) yield* rewritten.take(chunk);
}

function frame(chunk: UIMessageChunk): string {
  return `data: ${JSON.stringify(nameNeeds(chunk))}\n\n`;
}
