import type { Host } from '../../engine/host.ts';
import { loadRun } from '../../engine/load-run.ts';
import { isOwnerDead } from '../../engine/owner.ts';
import { type EngineError, messageOf } from '../../protocol/error.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';

export type PickUpOptions = {
  store: Store;
  host: Host;
  isServed(agent: string): boolean;
  drive(runId: string): void;
  log(line: string): void;
};

/**
 * Drives on the runs whose driver is gone and wakes those whose approvals expire, of agents that are
 * served. A driver that cannot be told dead is left to its lease, and looked at once more when that ends.
 * Gives the ids of the runs it drives; what cannot be read is logged.
 */
export async function pickUpRuns(options: PickUpOptions): Promise<string[]> {
  const { store, isServed, drive, log } = options;
  const onDamaged = (error: EngineError) => log(`A run is not picked up: ${error.message}`);
  const picked: string[] = [];
  for (const record of await store.list({ status: 'running', onDamaged })) {
    if (!isServed(record.agent)) continue;
    if (isDriven(record, options.host)) lookAgain(record, options);
    else {
      drive(record.runId);
      picked.push(record.runId);
    }
  }
  for (const record of await store.list({ status: 'waiting', onDamaged })) {
    if (isServed(record.agent) && (await hasDeadline(record, options))) drive(record.runId);
  }
  return picked;
}

function isDriven({ owner, leaseUntil = 0 }: RunRecord, host: Host): boolean {
  return owner !== undefined && leaseUntil > host.now() && !isOwnerDead(owner);
}

function lookAgain({ runId, leaseUntil = 0 }: RunRecord, options: PickUpOptions): void {
  const { store, host, drive, log } = options;
  const look = async () => {
    const record = await store.get(runId);
    if (record?.status === 'running' && !isDriven(record, host)) drive(runId);
  };
  const ms = leaseUntil - host.now() + 1;
  host.setTimer(ms, () => void look().catch(error => log(notPickedUp(runId, error))), { keepAlive: false });
}

async function hasDeadline({ runId }: RunRecord, { store, log }: PickUpOptions): Promise<boolean> {
  try {
    const { state } = await loadRun(store, runId);
    return state.context.timer !== null;
  } catch (error) {
    log(notPickedUp(runId, error));
    return false;
  }
}

function notPickedUp(runId: string, error: unknown): string {
  return `Run ${runId} is not picked up: ${messageOf(error)}`;
}
