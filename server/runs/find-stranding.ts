import type { Host } from '../../engine/host/host.ts';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { readStart, writerOfStart } from '../../engine/journal/read-journal.ts';
import { successorOf } from '../../engine/migrations/migrate-run.ts';
import { compareJournal, type VersionReport } from '../../engine/versions/compare-versions.ts';
import {
  canMigrate,
  findSteps,
  type JournalMigration,
  type Versions,
} from '../../engine/versions/migrate-journal.ts';
import { adviseOn } from '../../engine/versions/version-mismatch.ts';
import { JOURNAL_FORMAT } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Stranding } from '../../protocol/run-view.ts';
import { isDriven, listAll, type RunRecord, type Store, type WorkRequest } from '../../protocol/store.ts';
import { MIGRATE_AFTER_MS } from './migrate-orphans.ts';

/** The agents of a deploy or of a process; `work` is missing if they are unknown. */
export type Deployed = {
  work?: WorkRequest['agents'];
  /** The migrations of the agent with this name; `undefined` if the agent is not here. */
  migrationsOf(name: string): readonly JournalMigration[] | undefined;
  /** Names the deploy or the process in the reason: `the deploy`. */
  place: string;
};

type StrandingsOptions = { store: Store; host: Host; deployed: Deployed; log(line: string): void };

/** Of an agent that is not here, nothing is known but the chart. */
export class Strandings {
  readonly #options: StrandingsOptions;
  readonly #logged = new Set<string>();

  constructor(options: StrandingsOptions) {
    this.#options = options;
  }

  /** Returns why nothing happens to the run, or to a sub-agent's run that it waits for; `undefined` if it is driven or rests. */
  async find(record: RunRecord): Promise<Stranding | undefined> {
    const { host } = this.#options;
    if (record.status === 'running' && !isDriven(record, host.now(), isOwnerDead))
      return await this.#explain(record);
    if (record.status !== 'waiting') return undefined;
    for await (const child of listAll(this.#options.store, { parent: record.runId })) {
      const below = await this.find(child);
      if (below !== undefined) return below;
    }
    return undefined;
  }

  /** Logs why processes with these agents do not drive the run; once for each run. */
  async report(record: RunRecord): Promise<void> {
    if (!this.#logged.has(record.runId)) this.log(await this.#explain(record));
  }

  log(stranding: Stranding | undefined): void {
    if (stranding === undefined || this.#logged.has(stranding.runId)) return;
    const { type, runId, reason, advice } = stranding;
    this.#logged.add(runId);
    this.#options.log(
      `Run ${runId} has something to do, and processes with these agents do not drive it (${type}): ${reason}. ${advice}`,
    );
  }

  async #explain(record: RunRecord): Promise<Stranding | undefined> {
    const { work, ...known } = this.#options.deployed;
    const isHere = work?.some(({ name }) => name === record.agent) === true;
    return await findStranding(this.#options.store, record, isHere ? this.#options.deployed : known);
  }
}

/** `undefined` if they drive it or it was migrated. Reads its first entry only if its record has no chart. Throws `journal-damaged`. */
export async function findStranding(
  store: Store,
  record: RunRecord,
  deployed: Deployed,
): Promise<Stranding | undefined> {
  const { runId, agent, agentVersion } = record;
  const written = await findVersions(store, record);
  if (written === undefined) return undefined;
  const report = compareJournal(runId, written);
  const versions = {
    format: written.format,
    chart: written.chart.version,
    ...omitUndefined({ agent: agentVersion }),
  };
  const reason = report.opens ? explainAgent(record, deployed) : report.reason;
  if (reason === undefined || (await store.get(successorOf(runId))) !== undefined) return undefined;
  const migrations = deployed.migrationsOf(agent) ?? [];
  const advice = report.opens
    ? adviseOnAgent(record, deployed, versions)
    : adviseOnChart(report, versions, migrations);
  if (!isMigrated(record, deployed)) return { type: 'stranded', runId, reason, advice };
  const seconds = MIGRATE_AFTER_MS / 1_000;
  const later = `Workers with these agents migrate it once no process of its version takes it for ${seconds} seconds.`;
  return { type: 'migrates', runId, reason, advice: `${later} ${advice}` };
}

function isMigrated(record: RunRecord, { work, migrationsOf }: Deployed): boolean {
  const migrations = migrationsOf(record.agent);
  if (work === undefined || migrations === undefined) return false;
  const versions = work.find(({ name }) => name === record.agent)?.versions;
  return canMigrate(record, { migrations, ...omitUndefined({ versions }) });
}

/** The versions in the record, else those in the journal; `undefined` for a run that was adopted without them. */
async function findVersions(store: Store, { runId, chart }: RunRecord) {
  if (chart !== undefined) return { format: JOURNAL_FORMAT, chart };
  const start = await readStart(store, runId);
  return start && writerOfStart(start);
}

function explainAgent({ agent, agentVersion }: RunRecord, { work, place }: Deployed): string | undefined {
  const found = work?.filter(({ name }) => name === agent);
  if (found === undefined || agentVersion === undefined) {
    return found?.length === 0 ? `${place} has no agent "${agent}"` : undefined;
  }
  if (found.length === 0) return `${place} has no agent "${agent}"`;
  const versions = found.flatMap(({ versions }) => versions ?? [agentVersion]);
  if (versions.includes(agentVersion)) return undefined;
  return `version ${agentVersion} of agent "${agent}" began it, and ${place} has version ${versions.join(', ')}`;
}

function adviseOnAgent(
  { runId, agent, agentVersion }: RunRecord,
  { work, migrationsOf }: Deployed,
  versions: Versions,
): string {
  if (work?.every(({ name }) => name !== agent) === true)
    return `Add its module with --agent, or keep a worker with agent "${agent}" until the run ends.`;
  const keep = `keep a worker with version ${agentVersion} of "${agent}" until the run ends`;
  return findSteps(versions, migrationsOf(agent) ?? []) === null
    ? `K${keep.slice(1)}, or continue it with \`agentchart resume ${runId}\`.`
    : `Migrate it with \`agentchart migrate ${runId}\`, or ${keep}.`;
}

function adviseOnChart(
  report: VersionReport,
  versions: Versions,
  migrations: readonly JournalMigration[],
): string {
  const keep = `eep a worker of the release with chart ${versions.chart} until the run ends`;
  if (findSteps(versions, migrations) !== null)
    return `Migrate it with \`agentchart migrate ${report.runId}\`, or k${keep}.`;
  return [`K${keep}.`, adviseOn(report, versions, migrations)].join(' ').trim();
}
