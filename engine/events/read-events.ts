import { nextReaderTurn } from './reader-turns.ts';
import {
  DEFAULT_LIMIT,
  type QueueLimit,
  ReaderQueue,
  type RunEvents,
  type RunHappening,
} from './run-events.ts';
import { stoppable } from './stoppable.ts';

export type EventSource = {
  runId: string;
  events: RunEvents;
  /** The seq of the last entry that this process has read. */
  lastSeq(): number;
  /** The next entries after seq `after`. Those after `lastSeq` may be left out. Readers share them. */
  readPage(after: number): Promise<readonly RunHappening[]>;
  /** Whether more events are expected, as far as this process has read the journal. */
  activity(): 'running' | 'at-rest' | 'ended';
  failure(): { error: unknown } | null;
  refresh(): Promise<void>;
  nap(): Promise<void>;
};

type ReadOptions = {
  /** The seq after which to start; default 0. */
  after?: number;
  /** Reads until the run has ended; without it until the run settles. */
  follow?: boolean;
};

/** `merged`: with the stories of the sub-agents' runs. Default `apart`: without them. */
type WithSubAgents = { subAgents?: 'apart' | 'merged' };

export type StoryReadOptions = ReadOptions &
  WithSubAgents & {
    /** Drives the run, and reads until `settled()` resolves. Overrides `follow`. */
    settle?: boolean;
  };

export type StoryBatchOptions = ReadOptions &
  WithSubAgents & {
    /** Reading ends once this resolves. */
    until?: () => Promise<unknown>;
  };

/** The seq of the last entry to read, once it is known. Reading fails if it rejects. */
type Until = { until?: () => Promise<number> };

export type BatchOptions = ReadOptions & {
  /** How much the reader's queue holds; by default 1,024 events. */
  room?: QueueLimit;
  /** Whether the first batch is the current turn's text, even if empty; by default the text follows the journal. */
  textFirst?: boolean;
};

/** The entries after `after`, then events as they happen. */
export function readEvents(source: EventSource, options: ReadOptions & Until): AsyncGenerator<RunHappening> {
  const queue = new ReaderQueue(source.events, DEFAULT_LIMIT);
  return stoppable(readEach(source, queue, options), () => queue.close());
}

/** Like `readEvents`, in batches of everything available: the deltas of one network read are one batch. */
export function readBatches(
  source: EventSource,
  options: BatchOptions,
): AsyncGenerator<readonly RunHappening[]> {
  const queue = new ReaderQueue(source.events, options.room ?? DEFAULT_LIMIT);
  return stoppable(readAll(source, queue, options, nextReaderTurn), () => queue.close());
}

async function* readEach(
  source: EventSource,
  queue: ReaderQueue,
  options: ReadOptions & Until,
): AsyncGenerator<RunHappening> {
  for await (const batch of readAll(source, queue, options)) yield* batch;
}

async function* readAll(
  source: EventSource,
  queue: ReaderQueue,
  { after = 0, follow = false, textFirst = false, until }: BatchOptions & Until,
  gather?: () => Promise<void>,
): AsyncGenerator<readonly RunHappening[]> {
  const end = until && endOf(until, () => queue.wake());
  const isOver = () => {
    if (end !== undefined) return seq >= end.seq;
    const activity = source.activity();
    return activity === 'ended' || (activity === 'at-rest' && !follow);
  };
  const failureOf = () => {
    if (end !== undefined) return end.failure;
    return follow || source.activity() !== 'running' ? null : source.failure();
  };
  let seq = after;
  let isTextFirst = textFirst;
  try {
    while (!queue.isClosed) {
      const text = queue.open();
      await gather?.();
      if (isTextFirst) yield text;
      for (let pages = 0; seq < source.lastSeq(); pages += 1) {
        if (pages > 0) await nextReaderTurn();
        const page = await source.readPage(seq);
        const { firstSeq } = queue;
        const missing = seqOf(page.at(-1)) < firstSeq ? page : page.filter(one => seqOf(one) < firstSeq);
        if (missing.length === 0) break;
        seq = seqOf(missing.at(-1));
        yield missing;
        if (missing.length < page.length) break;
      }
      if (!isTextFirst && text.length > 0) yield text;
      isTextFirst = false;
      await source.refresh();
      while (!queue.isBehind && !queue.isClosed) {
        const batch = queue.drain().filter(happening => !('seq' in happening) || happening.seq > seq);
        seq = batch.findLast(happening => 'seq' in happening)?.seq ?? seq;
        if (batch.length > 0) yield batch;
        if (end !== undefined && isOver()) return;
        if (!queue.isEmpty) continue;
        if (isOver()) {
          await source.refresh();
          if (queue.isEmpty && isOver()) return;
          continue;
        }
        const failure = failureOf();
        if (failure !== null) throw failure.error;
        await queue.waitForMore(source.events.refreshLater(source));
        await gather?.();
      }
    }
  } finally {
    queue.close();
  }
}

function endOf(until: () => Promise<number>, wake: () => void) {
  const end: { seq: number; failure: { error: unknown } | null } = {
    seq: Number.POSITIVE_INFINITY,
    failure: null,
  };
  until()
    .then(
      seq => {
        end.seq = seq;
      },
      error => {
        end.failure = { error };
      },
    )
    .then(wake);
  return end;
}

function seqOf(happening: RunHappening | undefined): number {
  return happening !== undefined && 'seq' in happening ? happening.seq : 0;
}
