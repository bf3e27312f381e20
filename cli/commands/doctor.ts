import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Agent } from '../../agent/agent.ts';
import { agentNamed } from '../../agent/sub-agents.ts';
import { systemHost } from '../../engine/host/host.ts';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { beginProving, type RunGroup } from '../../explore/prove-runs.ts';
import { EngineError, invalidInput, messageOf } from '../../protocol/error.ts';
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
import type { Action, GivenTo } from '../command-table.ts';
import { describeFailure, EXIT } from '../exit-codes.ts';
import { loadAgent, readExports } from '../load-agent.ts';
import { storeFile } from '../options.ts';
import { watchInterrupts } from '../process-end.ts';
import { formatStore, isDatabase } from '../render/format.ts';
import { bold, dim, green, Output, red, yellow } from '../render/output.ts';
import { withProgress } from '../render/progress.ts';
import { showPath } from '../render/show-exploration.ts';
import { missingStore } from '../store.ts';

type Tables = { version: number | null; current: number; synchronousCommit?: string };

type Counts = Record<Finding['type'] | 'runs', number>;

/**
 * Lists the runs that workers of this release, with these agents, would not drive: then exits with 1. With `--prove`, says
 * for groups of runs what becomes of them.
 */
export const doctor: Action<'doctor'> = async options => {
  const { db, json, agent: modules = [] } = options;
  assertProves(options);
  const output = new Output({ json });
  const file = storeFile(db);
  const loaded = await Promise.all(modules.map(loadAgent));
  try {
    const tables = await describeTables(file);
    showTables(output, file, tables);
    const { counts, proof } = await withUnchanged(file, tables, async store => {
      if (options.prove === true) return await prove(store, loaded, output, options);
      const { counts } = await survey(store, loaded, finding => showFinding(output, finding));
      return { counts, proof: undefined };
    });
    if (proof !== undefined) showProof(output, proof);
    showSummary(output, counts, loaded);
    if (counts.stranded + counts.damaged > 0) return EXIT.failed;
    return proof === undefined ? EXIT.done : exitCodeOf(proof);
  } catch (error) {
    if (error instanceof EngineError && NOT_OF_STORE.has(error.code)) throw error;
    if (output.json)
      output.data({ type: 'store', store: formatStore(file), reachable: false, problem: messageOf(error) });
    output.problem(describeFailure(error).message);
    return EXIT.failed;
  }
};

/** What is wrong with a module or its tool servers says nothing about the store. */
const NOT_OF_STORE: ReadonlySet<string> = new Set([
  'input-invalid',
  'agent-invalid',
  'tool-source-failed',
  'sign-in-needed',
]);

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

type Report = (finding: Finding & { record?: object }) => void;

type Taking = {
  /** Gets each run that is not damaged. */
  take(record: RunRecord, stranding: Stranding | undefined): Promise<void>;
  /** Ends the survey before the next run. */
  stop: AbortSignal;
};

async function survey(
  store: Store,
  loaded: readonly Agent[],
  show: Report,
  taking?: Taking,
): Promise<{ counts: Counts; complete: boolean }> {
  const counts: Counts = { runs: 0, stranded: 0, migrates: 0, 'in-doubt': 0, 'dead-owner': 0, damaged: 0 };
  const report = (finding: Finding, record: object = {}) => {
    counts[finding.type] += 1;
    show({ ...finding, record });
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
      if (taking?.stop.aborted === true) return { counts, complete: false };
      counts.runs += 1;
      const { agent, agentVersion, chart, title } = record;
      const findings = await findProblem(store, record, deployed, now);
      for (const finding of findings) report(finding, { status, agent, agentVersion, chart, title });
      if (findings.every(({ type }) => type !== 'damaged'))
        await taking?.take(record, findings.find(isStranding));
    }
  return { counts, complete: true };
}

function isStranding(finding: Finding): finding is Stranding {
  return finding.type === 'stranded' || finding.type === 'migrates';
}

/** What `--prove` found. `complete`: it was not ended early. `driven`: runs that a process drives, which are left out. */
type Proof = { complete: boolean; driven: number; groups: RunGroup[] };

type Options = GivenTo<'doctor'>;

function assertProves({ prove, agent, maxStates, connect }: Options): void {
  if (prove === true && agent === undefined)
    throw invalidInput('--prove needs the module of each agent that you deploy: --agent MODULE.');
  if (prove !== true && (maxStates !== undefined || connect !== undefined))
    throw invalidInput('Give --max-states and --connect only with --prove.');
}

/** Single runs are shown only if they are damaged: the others are in groups. Ctrl-C ends it with what was found so far. */
async function prove(
  store: Store,
  loaded: readonly Agent[],
  output: Output,
  { agent: files = [], maxStates = MOST_STATES, connect: connects = false }: Options,
): Promise<{ counts: Counts; proof: Proof }> {
  const exported = await Promise.all(files.map(readExports));
  const modules = loaded.map((agent, index) => {
    const { machine: _, ...exports } = exported[index] ?? {};
    return { agent, exports };
  });
  const stop = new AbortController();
  const end = watchInterrupts({ first: () => stop.abort(), again: () => process.exit(EXIT.left) });
  try {
    return await withProgress(async show => {
      let runs = 0;
      let driven = 0;
      const onProgress = (states: number) => show(`${runs} runs, ${states} states`);
      const how = { store, maxStates, connects, onProgress, signal: stop.signal };
      const { prover, close } = await beginProving(modules, how);
      const take: Taking['take'] = async (record, stranding) => {
        runs += 1;
        show(`${runs} runs, ${prover.size} groups`);
        if (isDriven(record, systemHost.now(), isOwnerDead)) driven += 1;
        else await prover.take(record, stranding);
      };
      try {
        const damaged: Parameters<Report>[0][] = [];
        const keep: Report = finding => void (finding.type === 'damaged' && damaged.push(finding));
        const surveyed = await survey(store, loaded, keep, { take, stop: stop.signal });
        for (const finding of damaged) showFinding(output, finding);
        const { counts, complete } = surveyed;
        return { counts, proof: { complete, driven, groups: prover.groups } };
      } finally {
        await close();
      }
    });
  } finally {
    end();
  }
}

const MOST_STATES = 10_000;

function exitCodeOf({ complete, groups }: Proof): number {
  if (countVerdicts(groups).stops > 0) return EXIT.failed;
  return complete && groups.every(group => group.complete) ? EXIT.done : EXIT.incomplete;
}

function showProof(output: Output, proof: Proof): void {
  const { complete, driven, groups } = proof;
  if (output.json) return output.data({ type: 'proof', ...proof });
  showGroups(output, groups);
  const { continues, migrates, stops } = countVerdicts(groups);
  const counted = `${continues} continue, ${migrates} migrate, ${stops} stop`;
  const left = driven === 0 ? '' : `; ${driven} left out, which processes drive`;
  const early = complete ? '' : '; ended early, not all runs were explored';
  output.facts(WIDTH)(
    'proof',
    `${counted}, in ${groups.length} ${groups.length === 1 ? 'group' : 'groups'}${left}${early}`,
  );
}

const MOST_IDS = 3;

/** A line for each group, and what stops it with the path. */
function showGroups(output: Output, groups: readonly RunGroup[]): void {
  for (const group of groups) {
    const { verdict, agent, state, calls, count, runs, why, path } = group;
    const what = [state, ...calls].join(', ');
    const ids = runs.slice(0, MOST_IDS).join(', ');
    output.line(
      colorOf(group)(verdict.padEnd(WIDTH)),
      bold(`${count} ${count === 1 ? 'run' : 'runs'}`),
      ` of ${agent}, ${what}`,
      dim(`  ${ids}${count > MOST_IDS ? ', …' : ''}`),
    );
    if (why !== undefined) output.line(' '.repeat(WIDTH), why);
    if (path !== undefined) showPath(output, path, 1);
  }
}

function colorOf({ verdict, complete }: RunGroup) {
  if (verdict === 'stops') return red;
  return verdict === 'continues' && complete ? green : yellow;
}

/** How many runs continue, migrate and stop. */
function countVerdicts(groups: readonly RunGroup[]): Record<RunGroup['verdict'], number> {
  const counts = { continues: 0, migrates: 0, stops: 0 };
  for (const { verdict, count } of groups) counts[verdict] += count;
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

function showFinding(output: Output, { record, ...finding }: Parameters<Report>[0]): void {
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
