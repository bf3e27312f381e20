import type { Run } from '../engine/run/run.ts';
import type { CompletedTurn } from './runner-turn.ts';

/** What a runner learns from the new entries of a run that rests or has ended. */
type JournalProgress = {
  /** The last entry that was read. */
  seq: number;
  /** How many turns were completed. */
  turns: number;
  /** The last completed turn, unless it was a draft. */
  last: CompletedTurn | undefined;
  /** Whether the loop body has finished with the last turn. */
  bodyEnded: boolean;
};

/** Reads the entries after `after`. `runner` is the author that the runner's own entries have. */
export async function readJournal(run: Run, after: number, runner: string): Promise<JournalProgress> {
  const progress: JournalProgress = { seq: after, turns: 0, last: undefined, bodyEnded: false };
  for await (const entry of run.events({ after })) {
    if (!('seq' in entry)) continue;
    progress.seq = entry.seq;
    if (entry.type === 'turn.completed') {
      progress.turns += 1;
      progress.last = entry;
      progress.bodyEnded = false;
    } else if (entry.type === 'params.changed' && entry.by === runner) progress.bodyEnded = true;
  }
  if (run.context.lastTurn?.draft === true) progress.last = undefined;
  return progress;
}
