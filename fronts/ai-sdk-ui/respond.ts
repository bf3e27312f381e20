import { EVENT_STREAM_HEADERS, streamedBody } from '../../engine/run/readers/streamed-body.ts';
import type { Run } from '../../engine/run/run.ts';
import { type NamesOf, refuseUnknownOptions } from '../../protocol/options/refuse-unknown.ts';
import { type AiSdkVersion, ChunksForAiSdk6, nameNeeds } from './ai-sdk-6.ts';
import type { UIMessageChunk } from './chunk.ts';
import { describeSafely } from './describe-error.ts';
import { UI_MESSAGE_NAMES, type UIMessageOptions } from './messages.ts';
import { type StreamOptions, streamMessage } from './stream-message.ts';

const HEADERS = {
  ...EVENT_STREAM_HEADERS,
  'cache-control': 'no-store',
  'x-vercel-ai-ui-message-stream': 'v1',
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
  const rewritten = options.aiSdk === 6 ? new ChunksForAiSdk6() : undefined;
  const write = (chunk: UIMessageChunk) => `data: ${JSON.stringify(nameNeeds(chunk))}\n\n`;
  const body = streamedBody(streamMessage(run, { ...options, signal: closing.signal }), {
    frame: chunk => (rewritten?.take(chunk) ?? [chunk]).map(write).join(''),
    keepAlive: { text: ': keep-alive\n\n', host },
    end: 'data: [DONE]\n\n',
    failed: () =>
      write({
        type: 'error',
        errorText: options.describeError({ type: 'run', code: 'interrupted', message: '' }),
      }),
    leave: () => closing.abort(),
  });
  return new Response(body, { headers: HEADERS });
}
