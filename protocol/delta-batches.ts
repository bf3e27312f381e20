import type { TurnDelta } from './turn.ts';

type Batches = AsyncGenerator<readonly TurnDelta[], void>;

/** The batches of streams of which nothing was read yet. A wrapper of a stream has only what it makes of the deltas. */
const unread = new WeakMap<AsyncIterable<TurnDelta>, Batches>();

/** The deltas of batches, one by one: each batch has what came together. A reader of `piecesOf` waits once for a batch. */
export function streamOf(batches: Batches): AsyncGenerator<TurnDelta, void> {
  const stream = eachOf(batches, () => unread.delete(stream));
  unread.set(stream, batches);
  return stream;
}

async function* eachOf(batches: Batches, begin: () => void): AsyncGenerator<TurnDelta, void> {
  begin();
  for await (const batch of batches) for (const delta of batch) yield delta;
}

/** A stream in batches, if it has them and no methods of a wrapper, else delta by delta. Read this or the stream, not both. */
export function piecesOf(stream: AsyncIterable<TurnDelta>): AsyncIterable<readonly TurnDelta[] | TurnDelta> {
  const batches = Reflect.ownKeys(stream).length === 0 ? unread.get(stream) : undefined;
  return batches ?? stream;
}

export function batchIn(piece: readonly TurnDelta[] | TurnDelta): readonly TurnDelta[] {
  return 'type' in piece ? [piece] : piece;
}
