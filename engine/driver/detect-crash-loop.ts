import type { Context } from '../../machines/context.ts';
import { hasEnded, isAtRest } from '../../machines/status.ts';
import { statePath } from '../../machines/step.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import { shortenOwnerName } from '../../protocol/owner-name.ts';
import type { Store } from '../../protocol/store.ts';
import { type Fold, loadRun } from '../journal/load-run.ts';
import { readJournal } from '../journal/read-journal.ts';
import { childIdsOf } from '../sub-agents/sub-agent-runs.ts';

/** A run is quarantined after this many processes in a row died without making progress on it. */
export const MAX_CRASHES = 5;

/** The number of last entries to read first; doubled until one of them shows progress. */
const WINDOW = 64;

/** The events that every claim and attempt writes, whether it makes progress or not. */
const NO_PROGRESS: ReadonlySet<JournalEntry['event']['type']> = new Set([
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
 * Why a run has to be quarantined, as a text for people; `null` if it may be driven. It has to be once `MAX_CRASHES`
 * claims in a row replaced a process that had died, with no progress in between, not even by a sub-agent of an open
 * call.
 */
export async function detectCrashLoop(store: Store, loaded: Fold, runId: string): Promise<string | null> {
  const { state, seq } = loaded;
  if (hasEnded(state) || isAtRest(state)) return null;
  let last: string | undefined;
  let crashes = 0;
  for (let end = seq, window = WINDOW; end > 0; end -= window, window *= 2) {
    const entries = await readJournal(store, runId, Math.max(0, end - window));
    for (const { event } of entries.filter(entry => entry.seq <= end).reverse()) {
      if (!NO_PROGRESS.has(event.type)) return null;
      if (event.type !== 'run.claimed') continue;
      if (event.replaces === undefined) return null;
      last ??= event.replaces;
      crashes += 1;
      if (crashes < MAX_CRASHES) continue;
      const hasProgress = await childMadeProgress(store, state.context, event.at);
      return hasProgress ? null : explain(loaded, last);
    }
  }
  return null;
}

/** Whether a sub-agent of an open call, at any depth, made progress since a time in ms since the epoch. */
async function childMadeProgress(store: Store, context: Context, since: number): Promise<boolean> {
  for (const childId of childIdsOf(context)) {
    if ((await store.get(childId)) === undefined) continue;
    const entries = await readJournal(store, childId);
    if (entries.some(({ event }) => event.at >= since && !NO_PROGRESS.has(event.type))) return true;
    const { state } = await loadRun(store, childId);
    if (await childMadeProgress(store, state.context, since)) return true;
  }
  return false;
}

function explain({ state }: Fold, last: string): string {
  const running = state.context.calls.filter(({ status }) => status === 'running');
  const calls = running.map(({ name, callId }) => `${name} (${callId})`).join(', ');
  const where = calls === '' ? statePath(state) : `${statePath(state)}, running ${calls}`;
  return (
    `${MAX_CRASHES} processes in a row died while driving this run, without progress; the last was ` +
    `${shortenOwnerName(last)}. The run is in ${where}. It is not retried automatically: unpause it to try again, or cancel it.`
  );
}
