import type { Context } from '../../machines/context.ts';
import { statePath } from '../../machines/step.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import { shortenOwnerName } from '../../protocol/owner-name.ts';
import type { Store } from '../../protocol/store.ts';
import { type Fold, hasEnded, isAtRest, loadRun } from '../journal/load-run.ts';
import { readJournal } from '../journal/read-journal.ts';
import { childIdsOf } from '../sub-agents/child-runs.ts';

/** So many processes in a row may die of a run that does not get further. */
export const MOST_CRASHES = 5;

/** How many entries are looked at first; more only while all of them are beginnings. */
const WINDOW = 64;

/** What every new attempt leaves behind, whether it gets anywhere or not. */
const BEGINNINGS: ReadonlySet<JournalEntry['event']['type']> = new Set([
  'run.claimed',
  'text.started',
  'calls.started',
  'tool.started',
  'tool.interrupted',
  'tool.late',
  'run.noted',
  'run.redacted',
]);

/**
 * Why the run must not be driven again by itself, for a person; `null` if it may. It must not once
 * `MOST_CRASHES` processes in a row took it over from one that died, and nothing came of any of them, nor of
 * the sub-agents it is busy with.
 */
export async function detectCrashLoop(store: Store, loaded: Fold, runId: string): Promise<string | null> {
  const { state, seq } = loaded;
  if (hasEnded(state) || isAtRest(state)) return null;
  let last: string | undefined;
  let crashes = 0;
  for (let end = seq, window = WINDOW; end > 0; end -= window, window *= 2) {
    const entries = await readJournal(store, runId, Math.max(0, end - window));
    for (const { event } of entries.filter(entry => entry.seq <= end).reverse()) {
      if (!BEGINNINGS.has(event.type)) return null;
      if (event.type !== 'run.claimed') continue;
      if (event.replaces === undefined) return null;
      last ??= event.replaces;
      crashes += 1;
      if (crashes < MOST_CRASHES) continue;
      const hasMoved = await hasMovedSince(store, state.context, event.at);
      return hasMoved ? null : explain(loaded, last);
    }
  }
  return null;
}

/** Whether a sub-agent that the run is busy with got further, itself or one of its own. */
async function hasMovedSince(store: Store, context: Context, since: number): Promise<boolean> {
  for (const childId of childIdsOf(context)) {
    if ((await store.get(childId)) === undefined) continue;
    const entries = await readJournal(store, childId);
    if (entries.some(({ event }) => event.at >= since && !BEGINNINGS.has(event.type))) return true;
    const { state } = await loadRun(store, childId);
    if (await hasMovedSince(store, state.context, since)) return true;
  }
  return false;
}

function explain({ state }: Fold, last: string): string {
  const running = state.context.calls.filter(({ status }) => status === 'running');
  const calls = running.map(({ name, callId }) => `${name} (${callId})`).join(', ');
  const where = calls === '' ? statePath(state) : `${statePath(state)}, running ${calls}`;
  return (
    `${MOST_CRASHES} processes in a row died while they drove this run and got no further, the last of them ` +
    `${shortenOwnerName(last)}; it stands in ${where}. It is not tried again by itself: unpause it to try, or cancel it.`
  );
}
