import type { Host } from '../../engine/host/host.ts';
import { isOwnerDead, makeOwner } from '../../engine/host/owner.ts';
import { takeOverRun } from '../../engine/migrations/take-over-run.ts';
import { canMigrate, type MigrationTarget } from '../../engine/versions/migrate-journal.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { isDriven, listAll, type RunRecord, type Store, type WorkRequest } from '../../protocol/store.ts';

/** How long a run of another version has to be left alone before it is migrated, in ms. */
export const MIGRATE_AFTER_MS = 10_000;

/** The longest time between two searches after which the store, or this process, counts as away, in ms. */
const LONGEST_GAP_MS = 7_500;

const MOST_FOUND = 100;

/** The first and the longest wait before resting runs are woken again, in ms. */
export const WAKE_AFTER_MS = 60_000;
const LONGEST_WAKE_MS = 16 * 60_000;

type OrphanMigratorOptions = {
  store: Store;
  host: Host;
  agents: WorkRequest['agents'];
  /** How runs of the agent with this name are migrated; `undefined` if they are not. */
  targetOf(agent: string): MigrationTarget | undefined;
  strandings: { report(record: RunRecord): Promise<void> };
  log(line: string): void;
};

/** A run of another version: the seq of its last entry, and since when it has been left alone (monotonic ms). */
type Seen = { seq: number; since: number };

/**
 * Migrates the runs that no process can drive now: runs of an older chart, or of another version of their agent, that
 * have something to do.
 *
 * O1 A run is migrated after this process has seen for `MIGRATE_AFTER_MS`, without a gap, that it had something to do
 *    and that no process took it. After a gap the time starts again, so that others can come back too.
 * O2 A run stays while a process holds a run of the same version: its workers are there, and busy.
 * O3 A child run is migrated with the run at the top.
 * O4 A run that cannot be migrated, or for which there is no migration, is logged once and left alone.
 * O5 Of the resting runs of each older chart, one is woken from time to time. If processes of that chart are there, one
 *    takes it, and it rests again. Otherwise it has something to do that no process takes, and O1 to O4 apply. Once a run
 *    was left alone, all others of its chart are woken: each is migrated only by the same rules.
 */
export class OrphanMigrator {
  readonly #options: OrphanMigratorOptions;
  #seen = new Map<string, Seen>();
  readonly #failed = new Set<string>();
  readonly #leftAlone = new Set<string>();
  #wakeAfterMs = WAKE_AFTER_MS;
  #nextWake = Number.NEGATIVE_INFINITY;
  #lastLook = Number.NEGATIVE_INFINITY;
  #isLooking = false;

  constructor(options: OrphanMigratorOptions) {
    this.#options = options;
  }

  /** Searches once, and migrates what is due. Rejects if the store cannot be read. */
  async look(): Promise<void> {
    if (this.#isLooking || this.#options.store.takeWork === undefined) return;
    this.#isLooking = true;
    try {
      for (const record of await this.#findOrphans()) await this.#migrate(record);
      if (this.#options.host.monotonic() >= this.#nextWake) await this.#wakeResting();
    } finally {
      this.#isLooking = false;
    }
  }

  async #findOrphans(): Promise<RunRecord[]> {
    const { store, host, agents } = this.#options;
    const found = await store.takeWork?.({
      agents: agents.map(({ name }) => ({ name })),
      limit: MOST_FOUND,
      reserveMs: 0,
      now: host.now(),
      isDead: isOwnerDead,
    });
    const now = host.monotonic();
    const before = now - this.#lastLook > LONGEST_GAP_MS ? new Map<string, Seen>() : this.#seen;
    this.#lastLook = now;
    const others = (found ?? []).filter(record => this.#isOther(record) && !this.#failed.has(record.runId));
    this.#seen = new Map(
      others.map(({ runId, seq }) => {
        const seen = before.get(runId);
        return [runId, seen?.seq === seq ? seen : { seq, since: now }];
      }),
    );
    return others.filter(({ runId }) => now - (this.#seen.get(runId)?.since ?? now) >= MIGRATE_AFTER_MS);
  }

  async #wakeResting(): Promise<void> {
    const { store, host, agents } = this.#options;
    const resting = new Map<string, RunRecord[]>();
    for (const { name } of agents)
      for await (const record of listAll(store, { agent: name, status: 'waiting', onDamaged() {} }))
        if (this.#mayWake(record)) upsert(resting, chartOf(record)).push(record);
    for (const [chart, runs] of resting) {
      runs.sort((one, other) => one.updatedAt - other.updatedAt);
      const woken = runs.slice(0, this.#leftAlone.delete(chart) ? MOST_FOUND : 1);
      for (const { runId, epoch } of woken) await store.release(runId, epoch, host.now());
    }
    this.#nextWake = host.monotonic() + this.#wakeAfterMs;
    this.#wakeAfterMs = Math.min(2 * this.#wakeAfterMs, LONGEST_WAKE_MS);
  }

  /** Whether the run rests, nothing wakes it yet, and workers of its chart would take it where this process would not. */
  #mayWake(record: RunRecord): boolean {
    const { runId, agent, owner, parent, wakeAt = Number.POSITIVE_INFINITY } = record;
    if (owner !== undefined || parent !== undefined || wakeAt <= this.#options.host.now()) return false;
    if (this.#failed.has(runId) || isSameChart(record, { chart: chartIdentity() })) return false;
    const target = this.#options.targetOf(agent);
    return target !== undefined && canMigrate(record, target);
  }

  /** Whether workers of this version leave the run to others. */
  #isOther({ agent, agentVersion, chart }: RunRecord): boolean {
    if (chart === undefined) return false;
    const isOwnVersion = this.#options.agents.some(
      ({ name, versions }) =>
        name === agent &&
        (versions === undefined || agentVersion === undefined || versions.includes(agentVersion)),
    );
    return !(isOwnVersion && isSameChart({ chart }, { chart: chartIdentity() }));
  }

  async #migrate(found: RunRecord): Promise<void> {
    const { store, host, log } = this.#options;
    const top = await this.#findTop(found);
    const target = top && this.#options.targetOf(top.agent);
    if (await this.#hasDriver(top ?? found)) {
      this.#seen.delete(found.runId);
      return;
    }
    if (top === undefined || target === undefined || !canMigrate(top, target)) {
      this.#failed.add(found.runId);
      await this.#options.strandings.report(found);
      return;
    }
    this.#leftAlone.add(chartOf(top));
    this.#wakeAfterMs = WAKE_AFTER_MS;
    this.#nextWake = host.monotonic();
    const { migrations } = target;
    const parts = { store, host, owner: makeOwner(host.newId('driver')), isDead: isOwnerDead, migrations };
    try {
      const successor = await takeOverRun(parts, top.runId);
      if (successor !== null)
        log(`Run ${top.runId} was migrated to ${successor}: no process drove its version.`);
    } catch (error) {
      if (error instanceof EngineError && error.code.startsWith('store-')) throw error;
      this.#failed.add(found.runId);
      log(`Run ${top.runId} cannot be migrated: ${messageOf(error)}`);
    }
  }

  async #findTop(record: RunRecord): Promise<RunRecord | undefined> {
    let top: RunRecord | undefined = record;
    while (top?.parent !== undefined) top = await this.#options.store.get(top.parent.runId);
    return top;
  }

  async #hasDriver(record: RunRecord): Promise<boolean> {
    const { store, host } = this.#options;
    const isHere = isSameChart(record, { chart: chartIdentity() });
    for await (const other of listAll(store, { status: 'running', onDamaged() {} })) {
      const isAlike =
        isSameChart(record, other) &&
        (!isHere || (record.agent === other.agent && record.agentVersion === other.agentVersion));
      if (isAlike && isDriven(other, host.now(), isOwnerDead)) return true;
    }
    return false;
  }
}

function isSameChart(one: Pick<RunRecord, 'chart'>, other: Pick<RunRecord, 'chart'>): boolean {
  return one.chart?.version === other.chart?.version && one.chart?.hash === other.chart?.hash;
}

function chartOf({ chart }: Pick<RunRecord, 'chart'>): string {
  return `${chart?.version} ${chart?.hash}`;
}

function upsert(groups: Map<string, RunRecord[]>, key: string): RunRecord[] {
  const group = groups.get(key) ?? [];
  groups.set(key, group);
  return group;
}
