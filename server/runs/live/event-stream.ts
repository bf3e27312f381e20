import { nextReaderTurn } from '../../../engine/events/reader-turns.ts';
import { jsonOf } from '../../../engine/events/shared-pages.ts';
import { frameOnce } from '../../../engine/events/streamed-body.ts';
import type { RunHappening } from '../../../engine/run/run.ts';
import { messageOf } from '../../../protocol/error.ts';
import { oncePer } from '../../../protocol/once-per.ts';
import type { Store } from '../../../protocol/store.ts';
import type { Hold } from '../run-registry.ts';

export type StreamBounds = {
  /** The most characters queued for a reader; beyond that, deltas are dropped and entries are re-read from the store. */
  waiting: number;
  /** The most characters that a stalled reader may miss before it is disconnected. */
  missed: number;
  keepAliveMs: number;
};

export const STREAM_BOUNDS: StreamBounds = {
  waiting: 256 * 1024,
  missed: 16 * 1024 * 1024,
  keepAliveMs: 15_000,
};

type FollowOptions = {
  runId: string;
  /** The `seq` of the last entry that the reader has. */
  after: number;
  store: Store;
  bounds: StreamBounds;
  hold(): Promise<Hold>;
  left: AbortSignal;
  disconnect(): void;
  log(line: string): void;
};

/** The first bytes of every stream: how long a browser waits before it reconnects, in ms. */
export const OPENING = 'retry: 1000\n\n';

/** A server-sent event without its id. `seq`: the seq of the entry in it. A reader can resume only after entries. */
export type Frame = { text: string; seq?: number };

export type Portion = readonly Frame[];

/** Writes a portion for a stream of one run: each frame has the `seq` of its entry as its id. */
export const writePortion = frameOnce((portion: Portion) =>
  portion.map(one => withId(one, one.seq)).join(''),
);

/**
 * A run's events for one reader, at the reader's pace. The engine queues events for the reader and counts what it
 * missed. Returns whether the run has ended and the reader has all its events.
 *
 * S1 The reader gets the text of the running turn so far, then the journal, then new events.
 * S2 A stalled reader is disconnected after it missed more than `missed` characters.
 * S3 The run is held only between the first read and the end. When a reader leaves, all resources are freed; the run
 *    continues.
 */
export async function* followRun(options: FollowOptions): AsyncGenerator<Portion, boolean> {
  const { runId, after, store, bounds, hold, left, disconnect, log } = options;
  let missed = 0;
  let isOver = false;
  let free = () => {};
  const close = () => {
    isOver = true;
    free();
  };
  left.addEventListener('abort', close, { once: true });
  try {
    const { run, closing, release } = await hold();
    free = release;
    if (left.aborted || closing.aborted) return false;
    const onMissed = (chars: number) => {
      missed += chars;
      if (isOver || missed <= bounds.missed) return;
      close();
      disconnect();
    };
    const sizeOf = (one: RunHappening) => frameOf(one).text.length;
    const room = { most: bounds.waiting, sizeOf, onMissed };
    const batches = run.eventBatches({ after, follow: true, textFirst: true, room });
    free = () => {
      closing.removeEventListener('abort', close);
      release();
      void batches.return(undefined);
    };
    closing.addEventListener('abort', close, { once: true });
    let isFirst = true;
    for await (const batch of batches) {
      const portions = isFirst
        ? divide(frameSoFar(batch), bounds.waiting)
        : portionsOf(batch, bounds.waiting);
      isFirst = false;
      for (const [place, portion] of portions.entries()) {
        if (place > 0) await nextReaderTurn();
        if (isOver) return false;
        yield portion;
        missed = 0;
      }
    }
    const record = isOver ? undefined : await store.get(runId);
    close();
    if (record === undefined) return false;
    yield [frame('end', { status: record.status })];
    return true;
  } catch (error) {
    if (!isOver) log(`An event stream of run ${runId} failed: ${messageOf(error)}`);
    return false;
  } finally {
    left.removeEventListener('abort', close);
    close();
  }
}

/** By batch; by its event if it has one. Readers of a run get the same events, and the same pages of its journal. */
const portions = new WeakMap<RunHappening | readonly RunHappening[], readonly Portion[]>();

function portionsOf(batch: readonly RunHappening[], most: number): readonly Portion[] {
  const [first] = batch;
  const shared = batch.length === 1 && first !== undefined ? first : batch;
  const known = portions.get(shared);
  if (known !== undefined) return known;
  const made = divide(batch.map(frameOf), most);
  portions.set(shared, made);
  return made;
}

function divide(all: readonly Frame[], most: number): Portion[] {
  const divided: Portion[] = [];
  let part: Frame[] = [];
  let chars = 0;
  for (const one of all) {
    chars += one.text.length;
    if (part.length > 0 && chars > most) {
      divided.push(part);
      part = [];
      chars = one.text.length;
    }
    part.push(one);
  }
  return part.length === 0 ? divided : [...divided, part];
}

const frameOf = oncePer((happening: RunHappening): Frame => {
  const isEntry = 'seq' in happening;
  const text = write(isEntry ? 'journal' : 'delta', jsonOf(happening));
  return isEntry ? { text, seq: happening.seq } : { text };
});

/** One `text` event, which replaces the text that the reader has; then the reasoning. Or what another agent answers so far. */
function frameSoFar(deltas: readonly RunHappening[]): Frame[] {
  const [first] = deltas;
  if (first?.type === 'answer.delta') return deltas.map(frameOf);
  if (first === undefined || !('attempt' in first) || !('turn' in first)) return [];
  const { turn, attempt } = first;
  const text = deltas.map(part => (part.type === 'text.delta' ? part.text : '')).join('');
  const others = deltas.filter(part => part.type !== 'text.delta');
  return [frame('text', { turn, attempt, text }), ...others.map(frameOf)];
}

export function frame(event: string, data: object): Frame {
  return { text: write(event, JSON.stringify(data)) };
}

/** JSON has no raw line breaks, so the data cannot end the event. */
function write(event: string, json: string): string {
  return `event: ${event}\ndata: ${json}\n\n`;
}

export function nameRun({ text, ...rest }: Frame, runId: string): Frame {
  return { ...rest, text: text.replace('\ndata: {', () => `\ndata: {"runId":${JSON.stringify(runId)},`) };
}

export function withId({ text, seq }: Frame, id: string | number | undefined): string {
  return seq === undefined || id === undefined ? text : `id: ${id}\n${text}`;
}
