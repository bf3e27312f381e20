import { beginFold, foldEntry, standingOf } from '../../engine/journal/load-run.ts';
import { readFromStart, type WholeJournal } from '../../engine/journal/read-journal.ts';
import { RunBlobs } from '../../engine/journal/run-blobs.ts';
import { describeCancel } from '../../machines/settled.ts';
import { hasEnded } from '../../machines/status.ts';
import { next } from '../../machines/step.ts';
import { EngineError } from '../../protocol/error.ts';
import { blobsOf, type RunEvent } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';

/**
 * Copies a run, and those it continues, to a store that has none of them yet or some. A copy of a run that has not ended is
 * cancelled, so that no process continues it and its calls cannot be decided. `last` comes after the last entry of the run. Rejects
 * with the errors of both stores.
 */
export async function copyRun(
  from: Store,
  to: Store,
  runId: string,
  last: readonly RunEvent[] = [],
): Promise<void> {
  for (const link of await from.chain(runId)) {
    if ((await to.get(link.runId)) !== undefined) continue;
    const journal = await readFromStart(from, link.runId, 'Copy');
    const blobs = await readBlobs(from, link.runId, journal);
    await writeCopy(to, journal, { blobs, last: link.runId === runId ? last : [] });
  }
}

type Blob = { digest: string; text: string };

/**
 * Writes a journal in one commit, with `last` after its last entry. `cancels`: the copy ends here. Leaves a run that is there
 * as it is.
 */
export async function writeCopy(
  to: Store,
  [first, ...rest]: WholeJournal,
  {
    blobs = [],
    last = [],
    cancels = true,
  }: { blobs?: readonly Blob[]; last?: readonly RunEvent[]; cancels?: boolean } = {},
): Promise<void> {
  const { event: started } = first;
  const { runId } = started;
  // Claims name drivers, and no process drives a copy.
  const events = rest.map(({ event }) => event).filter(({ type }) => type !== 'run.claimed');
  let state = beginFold(started);
  for (const entry of rest) state = foldEntry(state, entry, runId);
  if (cancels && !hasEnded(state)) {
    const { now: at } = state.context;
    const end = { at, ...describeCancel(state.context, { reason: COPY }) };
    state = next(state, end).state;
    events.push(end);
  }
  try {
    await to.create(started, undefined, { events: [...events, ...last], blobs, ...standingOf(state) });
  } catch (error) {
    if (!(error instanceof EngineError) || error.code !== 'run-exists') throw error;
  }
}

const COPY = 'a copy for comparison';

async function readBlobs(from: Store, runId: string, journal: WholeJournal): Promise<Blob[]> {
  const blobs = new RunBlobs({ store: from, host: {}, runId });
  const named = new Map(journal.flatMap(({ event }) => blobsOf(event)).map(blob => [blob.digest, blob]));
  const read: Blob[] = [];
  for (const [digest, blob] of named) {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    let text = '';
    for await (const page of blobs.pages(blob)) text += decoder.decode(page, { stream: true });
    read.push({ digest, text });
  }
  return read;
}
