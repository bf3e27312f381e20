import { nextReaderTurn } from '../../../engine/events/reader-turns.ts';
import { type Frame, nameRun, type Portion, withId } from './event-stream.ts';

/** A run's events, and the `seq` of the last entry that the reader has. */
export type FollowedRun = { runId: string; after: number; portions: AsyncGenerator<Portion, boolean> };

type MergeOptions = {
  runs: readonly FollowedRun[];
  /** The changes of all runs; `null` if the reader does not want them. */
  changes: AsyncGenerator<Portion, boolean> | null;
  /** Ends all sources. Aborted when the reader leaves, and at the end. */
  left: AbortController;
};

/** A source of the stream; `run` is `null` for changes of all runs. */
type Source = { run: FollowedRun | null; portions: AsyncGenerator<Portion, boolean> };

type Step = IteratorResult<Portion, boolean>;

/** Returns the id of an event: the position in every run. Run ids are escaped. */
function formatPlaces(places: ReadonlyMap<string, number>): string {
  return [...places].map(([runId, seq]) => `${encodeURIComponent(runId)}:${seq}`).join(',');
}

/**
 * Merges several runs, and the changes of all runs, into the texts of one stream of server-sent events, at the reader's
 * pace.
 *
 * M1 The id of an entry encodes the position in every run, `RUN:SEQ,RUN:SEQ`, so that a reader resumes all of them from
 *    it.
 * M2 A run that has ended is left out after its `end`; a run whose stream breaks ends the stream, so that its reader
 *    connects again. Without changes of all runs, the stream ends with the last run.
 */
export async function* mergeRuns({ runs, changes, left }: MergeOptions): AsyncGenerator<string, void> {
  const places = new Map(runs.map(({ runId, after }) => [runId, after]));
  const sources: Source[] = runs.map(run => ({ run, portions: run.portions }));
  if (changes !== null) sources.push({ run: null, portions: changes });
  const ready: { source: Source; step: Step }[] = [];
  let wake = () => {};
  const read = (source: Source) =>
    void source.portions.next().then(step => {
      ready.push({ source, step });
      wake();
    });
  const write = (run: FollowedRun | null, one: Frame) => {
    if (run === null) return one.text;
    if (one.seq === undefined) return nameRun(one, run.runId).text;
    places.set(run.runId, one.seq);
    return withId(one, formatPlaces(places));
  };
  try {
    for (const source of sources) read(source);
    for (let open = sources.length; open > 0; ) {
      const first = ready.shift();
      if (first === undefined) {
        await new Promise<void>(resolve => {
          wake = resolve;
        });
        continue;
      }
      const { source, step } = first;
      if (step.done === true) {
        if (!step.value) return;
        open -= 1;
        continue;
      }
      read(source);
      // Its ids are those of this reader alone: a page is encoded in the reader's turn.
      if (step.value.length > 1) await nextReaderTurn();
      if (left.signal.aborted) return;
      yield step.value.map(one => write(source.run, one)).join('');
    }
  } finally {
    left.abort();
  }
}
