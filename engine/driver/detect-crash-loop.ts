import { hasEnded, isAtRest } from '../../machines/status.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import { shortenOwnerName } from '../../protocol/owner-name.ts';
import type { Store } from '../../protocol/store.ts';
import type { Fold } from '../journal/load-run.ts';
import { readJournal } from '../journal/read-journal.ts';
import { childrenBelow } from '../sub-agents/children.ts';

/** A run is quarantined after this many processes in a row died without making progress on it. */
export const MAX_CRASHES = 5;

/** The number of last entries to read first; doubled until one of them shows progress. */
const WINDOW = 8;

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

/** Why a run has to be quarantined, for people: `MAX_CRASHES` drivers in a row died without progress, even of a sub-agent. */
export async function detectCrashLoop(
  store: Store,
  { state, seq }: Fold,
  runId: string,
): Promise<string | null> {
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
      const since = event.at;
      for await (const { context } of childrenBelow(store, state)) {
        const journal = await readJournal(store, context.runId);
        if (journal.some(({ event: its }) => its.at >= since && !NO_PROGRESS.has(its.type))) return null;
      }
      return explain(state, last);
    }
  }
  return null;
}

function explain(state: ChartState, last: string): string {
  const running = state.context.calls.filter(({ status }) => status === 'running');
  const calls = running.map(({ name, callId }) => `${name} (${callId})`).join(', ');
  const where = calls === '' ? statePath(state) : `${statePath(state)}, running ${calls}`;
  return (
    `${MAX_CRASHES} processes in a row died while driving this run, without progress; the last was ` +
    `${shortenOwnerName(last)}. The run is in ${where}. It is not retried automatically: unpause it to try again, or cancel it.`
  );
}
