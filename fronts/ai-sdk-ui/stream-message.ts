import { readJournal } from '../../engine/journal/read-journal.ts';
import type { Run, RunHappening } from '../../engine/run/run.ts';
import type { AiSdkVersion } from './ai-sdk-6.ts';
import type { ContentChunk, UIMessage, UIMessageChunk } from './chunk.ts';
import type { DescribeError } from './describe-error.ts';
import { FamilyFold } from './fold/child-calls.ts';
import { endOf, type Placed } from './fold/fold-run.ts';
import { PageFilter } from './fold/page-filter.ts';
import { findMessageIds } from './read-journal.ts';

/** Options of `streamMessage`. */
export type StreamOptions = {
  describeError: DescribeError;
  aiSdk: AiSdkVersion;
  /** The number of the message; the current one by default. */
  number?: number;
  /** The message that the page already has. Only missing chunks are sent. */
  page?: UIMessage;
  /** Ends the stream when the reader disconnects. */
  signal?: AbortSignal;
};

/**
 * Yields the chunks of one assistant message of a run, until the run rests or has ended. Drives the run unless another
 * process does. Ends early if the run receives another message.
 */
export async function* streamMessage(
  run: Run,
  { describeError, aiSdk, page, signal, ...options }: StreamOptions,
): AsyncGenerator<UIMessageChunk> {
  const { store, showText } = run.source;
  const messageId = await findMessageIds(store, (await store.get(run.id)) ?? { runId: run.id });
  const emitted: Placed[] = [];
  const family = new FamilyFold(store, { messageId, showText, describeError }, one => emitted.push(one));
  const { fold } = family;
  let seq = 0;
  for (const entry of await readJournal(store, run.id)) {
    await family.take({ ...entry.event, seq: entry.seq, runId: run.id });
    seq = entry.seq;
  }
  const number = options.number ?? fold.current;
  const isEarlier = number < fold.current;
  const draft = fold.drafts.find(one => one.type === 'assistant' && one.number === number);
  const before = draft?.type === 'assistant' ? draft.chunks.slice() : [];
  const later = isEarlier ? emitted.filter(({ message }) => message > number) : [];
  emitted.length = 0;
  const filter = page && new PageFilter(page, before, aiSdk);
  const pass = (placed: readonly Placed[]): ContentChunk[] =>
    placed.flatMap(one => filter?.take(laterThan(number, one)) ?? [one.chunk]);

  yield { type: 'start', messageId: messageId(number) };
  yield* filter?.begin() ?? [];
  yield* pass(before);
  if (filter !== undefined) yield* pass(later);
  for await (const happening of untilSettled(run, seq, signal)) {
    await family.take(happening);
    const placed = emitted.splice(0);
    if (!isEarlier && fold.current > number) {
      yield* pass(placed.filter(({ message }) => message === number));
      yield { type: 'finish', finishReason: 'other' };
      return;
    }
    yield* pass(placed);
  }
  const isAskedBelow = await family.rest();
  yield* pass(emitted.splice(0));
  yield { type: 'finish-step' };
  yield* endOf(fold.state, describeError, { isAskedBelow });
}

/**
 * Yields the events after `seq`, until the run and its sub-agents' runs rest or have ended. Drives them unless another
 * process does. Throws if driving fails.
 */
async function* untilSettled(run: Run, seq: number, signal?: AbortSignal): AsyncGenerator<RunHappening> {
  const happenings = run.events({ after: seq, follow: true })[Symbol.asyncIterator]();
  const stop = () => void happenings.return?.();
  signal?.addEventListener('abort', stop);
  let read = seq;
  let last = Number.POSITIVE_INFINITY;
  let failure: { error: unknown } | undefined;
  const settled = run.settled().then(
    () => {
      last = run.durable.seq;
      if (read >= last) stop();
    },
    error => {
      failure = { error };
      stop();
    },
  );
  for await (const happening of { [Symbol.asyncIterator]: () => happenings }) {
    if ('seq' in happening) read = happening.seq;
    yield happening;
    if (read >= last) break;
  }
  if (signal?.aborted !== true) await settled;
  if (failure !== undefined) throw failure.error;
}

/** Places chunks of messages after `number` behind all steps of the message. */
function laterThan(number: number, placed: Placed): Placed {
  return placed.message > number ? { ...placed, step: Number.MAX_SAFE_INTEGER } : placed;
}
