import { isOwnerDead } from '../../../engine/driver/owner.ts';
import { messageOf } from '../../../protocol/error.ts';
import type { Stranding } from '../../../protocol/run-view.ts';
import { isDriven, type RunRecord, type Store } from '../../../protocol/store.ts';
import { type Deployed, findStranding } from '../../../server/runs/find-stranding.ts';

/** What a deploy may need to know about a run that has not ended. */
export type Finding = Omit<Stranding, 'type'> & {
  type: Stranding['type'] | 'in-doubt' | 'dead-owner' | 'damaged';
};

/** Returns what is to report about a run. Reads its first entry only if its record has no chart. */
export async function findProblem(
  store: Store,
  record: RunRecord,
  deployed: Deployed,
  now: number,
): Promise<Finding[]> {
  const stranded = await findStranding(store, record, deployed).catch(
    (error): Finding => ({
      type: 'damaged',
      runId: record.runId,
      reason: messageOf(error),
      advice: 'Restore the store from a backup, or delete the run.',
    }),
  );
  return [stranded, findDoubt(record), findDeadOwner(record, now)].filter(finding => finding !== undefined);
}

function findDoubt({ runId, state, waitsFor = [] }: RunRecord): Finding | undefined {
  const doubts = waitsFor.filter(({ type }) => type === 'doubt');
  if (doubts.length === 0 && state !== 'resting.inDoubt') return undefined;
  const names = doubts.map(({ name, callId }) => `${name} (${callId})`).join(', ');
  return {
    type: 'in-doubt',
    runId,
    reason: `in doubt: ${names || 'a call'}`,
    advice: `Find out whether the call happened, then use \`agentchart resolve ${runId} CALL\`.`,
  };
}

function findDeadOwner(record: RunRecord, now: number): Finding | undefined {
  const { runId, owner } = record;
  if (owner === undefined || isDriven(record, now, isOwnerDead)) return undefined;
  const cause = isOwnerDead(owner) ? 'is gone' : 'let its lease expire';
  return {
    type: 'dead-owner',
    runId,
    reason: `process ${owner.pid} on ${owner.host} drove it and ${cause}`,
    advice: 'A worker that has its agent takes it.',
  };
}
