import type { Run } from '../../engine/run/run.ts';
import type { CompletedTurn } from './runner-turn.ts';

/** What a runner has to know of the entries behind `after`; the run is at rest, or has ended. */
export type JournalSeen = {
  seq: number;
  turns: number;
  /** The last turn, if it gave a reply. */
  last: CompletedTurn | undefined;
  /** The loop body has seen the last turn to its end. */
  bodyEnded: boolean;
};

export async function readJournal(run: Run, after: number, runner: string): Promise<JournalSeen> {
  const seen: JournalSeen = { seq: after, turns: 0, last: undefined, bodyEnded: false };
  for await (const entry of run.events({ after })) {
    if (!('seq' in entry)) continue;
    seen.seq = entry.seq;
    if (entry.type === 'turn.completed') {
      seen.turns += 1;
      seen.last = entry;
      seen.bodyEnded = false;
    } else if (entry.type === 'params.changed' && entry.by === runner) seen.bodyEnded = true;
  }
  if (run.context.lastTurn?.draft === true) seen.last = undefined;
  return seen;
}
