import type { RunHappening } from '../../engine/run/run.ts';
import type { Settled } from '../../engine/run/settled.ts';
import type { Output } from './output.ts';

/** Each event a JSON line as it is journaled, and with `deltas` what passes by beside the journal. */
export function makeJsonView(output: Output, runId: string, { deltas }: { deltas: boolean }): View {
  return {
    take(happening) {
      if ('seq' in happening) output.data(orderEvent(happening));
      else if (deltas) output.data({ runId, ...happening });
    },
    end(settled) {
      if (settled.status === 'failed') output.problem(`${settled.error.code}: ${settled.error.message}`);
    },
  };
}

/** An event with its place first. */
export function orderEvent({
  runId,
  seq,
  at,
  type,
  ...facts
}: Extract<RunHappening, { seq: number }>): object {
  return { runId, seq, at, type, ...facts };
}

/** What shows a run while it goes on. */
export interface View {
  /** An entry of the journal, in order, or what passes by beside it. */
  take(happening: RunHappening): void;
  /** The run has ended; one that waits is shown by what asks about it. */
  end(settled: Exclude<Settled, { status: 'waiting' }>): void;
}
