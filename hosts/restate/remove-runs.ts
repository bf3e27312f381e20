import { sleep, systemHost } from '../../engine/host/host.ts';
import type { DeleteOptions, PruneOptions, Store } from '../../protocol/store.ts';
import {
  findAwaited,
  type Kinship,
  planDeletion,
  planPruning,
  pruneRuns,
} from '../../stores/plan-deletion.ts';
import { isOpen } from '../../stores/run-record.ts';
import type { RestateCalls } from './ingress.ts';
import { type KeptEntry, RUN_OBJECT, type RunMeta } from './requests.ts';

/** The wait before a run that has changed meanwhile is looked at again, in ms. */
const AGAIN_MS = 100;

/**
 * Implements `Store.delete`. The run at the top is deleted only if it still ends where it was read; its object deletes
 * the other runs then, whether or not the caller waits for that.
 */
export async function deleteRun(
  calls: RestateCalls,
  runId: string,
  options: DeleteOptions,
): Promise<string[]> {
  for (;;) {
    const kinship = await readKinship(calls);
    const doomed = planDeletion(kinship, runId, options);
    if (await remove(calls, kinship, doomed)) return doomed;
    await sleep(systemHost, AGAIN_MS);
  }
}

/** Implements `Store.prune`. Each run is deleted like those of `deleteRun`, with its child runs. */
export async function pruneRunsOf(
  calls: RestateCalls,
  store: Pick<Store, 'list'>,
  options: PruneOptions,
): Promise<string[]> {
  return await pruneRuns(store, options, async (runIds, gone) => {
    const kinship = await readKinship(calls);
    const doomed = planPruning(kinship, runIds, gone, options);
    if (options.dryRun === true) return doomed;
    const removed: string[] = [];
    for (const family of familiesOf(kinship, doomed)) {
      // The runs that follow may be ones that a run which changed continues: a later call deletes them.
      if (!(await remove(calls, kinship, family))) break;
      removed.push(...family);
    }
    return removed;
  });
}

async function remove(calls: RestateCalls, kinship: Kinship, doomed: readonly string[]): Promise<boolean> {
  const [top = '', ...others] = doomed;
  const seq = kinship.find(top)?.seq ?? 0;
  return await calls.run(top, 'remove', { seq, others });
}

function familiesOf(kinship: Kinship, doomed: readonly string[]): string[][] {
  const all = new Set(doomed);
  const below = (runId: string): string[] => [
    runId,
    ...kinship
      .childrenOf(runId)
      .filter(id => all.has(id))
      .flatMap(below),
  ];
  return doomed.filter(id => !all.has(kinship.find(id)?.parent?.runId ?? '')).map(below);
}

/** Returns what Restate stores about each run, in no order. One SQL query reads all runs. */
export async function readMetas(calls: RestateCalls): Promise<RunMeta[]> {
  const rows = await calls.query(
    `select value_utf8 from state where service_name = '${RUN_OBJECT}' and key = 'meta'`,
  );
  return rows.map(({ value_utf8 }) => JSON.parse(String(value_utf8)));
}

async function readKinship(calls: RestateCalls): Promise<Kinship> {
  const records = (await readMetas(calls)).map(({ record }) => record);
  const byId = new Map(records.map(record => [record.runId, record]));
  const children = Map.groupBy(records, ({ parent }) => parent?.runId);
  const continuations = Map.groupBy(records, ({ continues }) => continues);
  const idsOf = (found: readonly { runId: string }[] = []) => found.map(({ runId }) => runId);
  // Only child runs are awaited.
  const open = records.some(({ parent }) => parent !== undefined) ? records.filter(isOpen) : [];
  const awaited = open.length === 0 ? new Map() : await readAwaited(calls);
  return {
    find: runId => byId.get(runId),
    childrenOf: runId => idsOf(children.get(runId)),
    continuationsOf: runId => idsOf(continuations.get(runId)),
    waiting: () => open.map(({ runId }) => ({ runId, awaited: awaited.get(runId) ?? new Set() })),
  };
}

async function readAwaited(calls: RestateCalls): Promise<Map<string, ReadonlySet<string>>> {
  const rows = await calls.query(
    `select service_key, key, value_utf8 from state where service_name = '${RUN_OBJECT}' and key like 'entry %'
     and (value_utf8 like '%"tool.suspended"%' or value_utf8 like '%"result.received"%')`,
  );
  const entries = rows.map(({ service_key, key, value_utf8 }) => ({
    runId: String(service_key),
    seq: Number(String(key).slice('entry '.length)),
    event: (JSON.parse(String(value_utf8)) as KeptEntry).event,
  }));
  entries.sort((one, other) => one.seq - other.seq);
  return new Map(
    [...Map.groupBy(entries, ({ runId }) => runId)].map(([runId, own]) => [
      runId,
      findAwaited(own.map(({ event }) => JSON.stringify(event))),
    ]),
  );
}
