import type { RunHappening } from '../../engine/run/run.ts';
import type { Settled } from '../../engine/run/settled.ts';

/** What shows a run while it goes on. */
export interface View {
  /** An entry of the journal, in order, or what passes by beside it. */
  take(happening: RunHappening): void;
  /** The run has ended; one that waits is shown by what asks about it. */
  end(settled: Exclude<Settled, { status: 'waiting' }>): void;
}
