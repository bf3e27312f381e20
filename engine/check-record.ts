import type { ChartState } from '../machines/step.ts';
import type { JournalEntry, RunStarted } from '../protocol/event.ts';
import type { RunRecord } from '../protocol/store.ts';
import { statusOf } from './load-run.ts';

/** What a journal says of its run's status, epoch and times. */
export type Standing = Pick<RunRecord, 'status' | 'epoch' | 'createdAt' | 'updatedAt'>;

/** Of entries that begin with the start of the run, and the fold of them. */
export function standingOf(entries: readonly JournalEntry[], state: ChartState): Standing {
  const claim = entries.findLast(({ event }) => event.type === 'run.claimed')?.event;
  return {
    status: statusOf(state),
    epoch: claim?.type === 'run.claimed' ? claim.epoch : 0,
    createdAt: entries[0]?.event.at ?? 0,
    updatedAt: entries.at(-1)?.event.at ?? 0,
  };
}

/**
 * What a store's record says otherwise than the journal up to its last entry: such as `status is "finished",
 * and by the journal "waiting"`; `null` for nothing. Who holds the lease, and until when, is in no journal.
 */
export function compareRecord(record: RunRecord, started: RunStarted, standing: Standing): string | null {
  const { agent, continues } = started;
  const said = { ...standing, agent: agent.name, continues };
  for (const key of KEYS) {
    if (record[key] !== said[key])
      return `${key} is ${JSON.stringify(record[key])}, and by the journal ${JSON.stringify(said[key])}`;
  }
  return null;
}

const KEYS = ['agent', 'continues', 'status', 'epoch', 'createdAt', 'updatedAt'] as const;
