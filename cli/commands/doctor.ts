import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Agent } from '../../agent/agent.ts';
import { agentNamed } from '../../agent/sub-agents.ts';
import { systemHost } from '../../engine/host/host.ts';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Stranding } from '../../protocol/run-view.ts';
import { isDriven, listAll, type RunRecord, type Store } from '../../protocol/store.ts';
import { RESPONSES } from '../../server/gateway/runs/response-spec.ts';
import { type Deployed, findStranding } from '../../server/runs/find-stranding.ts';
import { ServedAgents } from '../../server/runs/served-agents.ts';
import { memory } from '../../stores/memory.ts';
import { describeDatabase as describePostgres } from '../../stores/postgres/database.ts';
import { postgres } from '../../stores/postgres.ts';
import { backUpDatabase } from '../../stores/sqlite/back-up-database.ts';
import { describeDatabaseFile as describeSqlite } from '../../stores/sqlite/open-database.ts';
import { sqlite } from '../../stores/sqlite.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { loadAgent } from '../load-agent.ts';
import { storeFile } from '../options.ts';
import { formatStore, isDatabase } from '../render/format.ts';
import { bold, Output } from '../render/output.ts';
import { missingStore } from '../store.ts';

type Tables = { version: number | null; current: number; synchronousCommit?: string };

type Counts = Record<Finding['type'] | 'runs', number>;

/** Lists the runs that workers of this release, with these agents, would not drive: then exits with 1. */
export const doctor: Action<'doctor'> = async ({ db, json, agent: modules = [] }) => {
  const output = new Output({ json });
  const file = storeFile(db);
  const loaded = await Promise.all(modules.map(loadAgent));
  try {
    const tables = await describeTables(file);
    showTables(output, file, tables);
    const counts = await withUnchanged(file, tables, store => survey(store, loaded, output));
    showSummary(output, counts, loaded);
    return counts.stranded + counts.damaged === 0 ? EXIT.done : EXIT.failed;
  } catch (error) {
    if (output.json)
      output.data({ type: 'store', store: formatStore(file), reachable: false, problem: messageOf(error) });
    output.problem(messageOf(error));
    return EXIT.failed;
  }
};

async function describeTables(file: string): Promise<Tables> {
  if (isDatabase(file)) return await describePostgres(file);
  if (!existsSync(file)) throw missingStore(file);
  return describeSqlite(file);
}

/** Runs `work` on a store that it must not change; tables of an older release in SQLite are copied and the copy is migrated. */
async function withUnchanged<Result>(
  file: string,
  { version, current }: Tables,
  work: (store: Store) => Promise<Result>,
): Promise<Result> {
  if (version === null) return await workOn(memory(), work);
  if (isDatabase(file)) return await workOn(postgres(file, { migrates: false }), work);
  if (version === current) return await workOn(sqlite(file), work);
  const folder = await mkdtemp(join(tmpdir(), 'agentchart-doctor-'));
  try {
    const copy = join(folder, 'runs.db');
    await backUpDatabase(file, copy);
    return await workOn(sqlite(copy), work);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function workOn<Result>(store: Store, work: (store: Store) => Promise<Result>): Promise<Result> {
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

async function survey(store: Store, loaded: readonly Agent[], output: Output): Promise<Counts> {
  const counts: Counts = { runs: 0, stranded: 0, migrates: 0, 'in-doubt': 0, 'dead-owner': 0, damaged: 0 };
  const report = (finding: Finding, record: object = {}) => {
    counts[finding.type] += 1;
    showFinding(output, finding, record);
  };
  const onDamaged = (error: Error & { details?: unknown }) => {
    counts.runs += 1;
    const advice = 'Restore the store from a backup.';
    report({ type: 'damaged', runId: runIdIn(error.details), reason: error.message, advice });
  };
  const deployed = describeDeploy(store, loaded);
  const now = systemHost.now();
  for (const status of ['running', 'waiting'] as const)
    for await (const record of listAll(store, { status, onDamaged })) {
      counts.runs += 1;
      const { agent, agentVersion, chart, title } = record;
      for (const finding of await findProblem(store, record, deployed, now))
        report(finding, { status, agent, agentVersion, chart, title });
    }
  return counts;
}

function runIdIn(details: unknown): string {
  const isNamed = typeof details === 'object' && details !== null && 'runId' in details;
  return isNamed ? String(details.runId) : '';
}

/** What workers with these agents would take. Without agents, only charts are compared. */
function describeDeploy(store: Store, loaded: readonly Agent[]): Deployed {
  const agents = new Map(loaded.map(agent => [agent.name, agent]));
  const migrationsOf = (name: string) =>
    loaded
      .flatMap(agent => agentNamed(agent, name) ?? [])
      .map(({ options }) => options.migrations ?? [])
      .at(0);
  const place = 'the deploy';
  if (loaded.length === 0) return { migrationsOf, place };
  // The runs of requests to /v1 have their tools in their journal, not in a module.
  const work = [...new ServedAgents({ store, agents }).workFor('own'), { name: RESPONSES }];
  return { work, migrationsOf, place };
}

const LABELS: Record<Finding['type'], string> = {
  stranded: 'stranded',
  migrates: 'migrates',
  'in-doubt': 'in doubt',
  'dead-owner': 'no driver',
  damaged: 'damaged',
};

const WIDTH = 11;

function showFinding(output: Output, finding: Finding, record: object): void {
  if (output.json) return output.data({ ...finding, ...record });
  const style = finding.type === 'stranded' || finding.type === 'damaged' ? 'red' : 'yellow';
  output.line(
    { style, text: LABELS[finding.type].padEnd(WIDTH) },
    bold(finding.runId),
    `  ${finding.reason}`,
  );
  output.line(' '.repeat(WIDTH), finding.advice);
}

function showTables(output: Output, file: string, tables: Tables): void {
  const { version, current, synchronousCommit } = tables;
  const store = formatStore(file);
  const migrates = version !== null && version < current;
  if (output.json) return output.data({ type: 'store', store, reachable: true, migrates, ...tables });
  const fact = output.facts(WIDTH);
  fact('store', store);
  fact('tables', describeVersion(version, current));
  if (synchronousCommit === 'off')
    fact(
      'commits',
      'synchronous_commit is off: a crash of the server can lose acknowledged events, and a tool may run twice. Turn it on.',
    );
}

function describeVersion(version: number | null, current: number): string {
  if (version === null) return `none; the first use creates those of version ${current}`;
  if (version === current) return `version ${current}`;
  return `version ${version}; this release migrates them to ${current} when it opens the store, and older releases no longer read them`;
}

function showSummary(output: Output, counts: Counts, loaded: readonly Agent[]): void {
  const { runs, stranded, migrates, damaged, 'in-doubt': inDoubt, 'dead-owner': deadOwners } = counts;
  const agents = loaded.map(({ name }) => name);
  if (output.json) {
    const others = migrates === 0 ? {} : { migrates };
    output.data({ type: 'summary', runs, stranded, inDoubt, deadOwners, damaged, ...others, agents });
    return;
  }
  const fact = output.facts(WIDTH);
  if (agents.length === 0)
    fact('agents', 'not compared: give the module of each agent that you deploy with --agent');
  else fact('agents', agents.join(', '));
  fact(
    'summary',
    `${runs} ${runs === 1 ? 'run has' : 'runs have'} not ended: ${stranded} stranded, ${migrates} to be migrated, ${inDoubt} in doubt, ${deadOwners} without their driver, ${damaged} damaged`,
  );
}

type Finding = Omit<Stranding, 'type'> & {
  type: Stranding['type'] | 'in-doubt' | 'dead-owner' | 'damaged';
};

async function findProblem(
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
