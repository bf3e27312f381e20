import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { listAll, type Store } from '../../../../protocol/store.ts';
import { POSTGRES_BIN, startPostgres } from '../../../support/stores/postgres-server.ts';
import { readLines } from '../../chaos/chaos.ts';
import { openStore } from '../../chaos/open-store.ts';
import type { AttackCase } from '../attack-case.ts';
import { type Finding, found } from '../finding.ts';
import {
  type Acknowledged,
  type Asked,
  beginRuns,
  type Fault,
  type Forked,
  findFault,
  RUNS,
  VALUES,
  valuesIn,
} from './redacted-runs.ts';

/**
 * Redactions of the same runs from several processes at once, while others load, fork, continue and append to them.
 *
 * T1 A value whose redaction was acknowledged is in no file or table of the run from then on, whoever writes.
 * T2 A model request, or a fork, of a command that began after the acknowledgement does not have it.
 * T3 Every run replays at any time.
 */

const PROCESS = fileURLToPath(new URL('redaction-process.ts', import.meta.url));
const REDACTORS = ['redact-0', 'redact-1'] as const;
const OTHERS = ['write', 'copy'] as const;
/** How long the redactors may take, in ms: several times as long as they do. */
const PATIENCE_MS = 30_000;

type Place = { folder: string; db: string; seed: number; isCareless: boolean };

function startProcess({ folder, db, seed, isCareless }: Place, role: string): Promise<unknown> {
  const args = [PROCESS, folder, db, role, String(seed), ...(isCareless ? ['careless'] : [])];
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], {
    stdio: 'ignore',
    timeout: PATIENCE_MS,
    killSignal: 'SIGKILL',
  });
  return once(child, 'close');
}

async function attack(place: Place, readAll: () => Promise<string>): Promise<Finding[]> {
  const { folder, db, seed } = place;
  const store = openStore(db);
  try {
    await beginRuns(store);
    const others = OTHERS.map((role, index) => startProcess({ ...place, seed: seed * 10 + index }, role));
    await Promise.all(REDACTORS.map((role, index) => startProcess({ ...place, seed: seed + index }, role)));
    writeFileSync(join(folder, 'over'), '');
    await Promise.all(others);
    return [...(await findClear(store, folder, readAll)), ...(await findBroken(store, folder))];
  } finally {
    await store.close();
  }
}

/** The values that were in clear after their redaction was acknowledged. Deletes the runs that are copies. */
async function findClear(store: Store, folder: string, readAll: () => Promise<string>): Promise<Finding[]> {
  const acknowledged = readLines<Acknowledged>(folder, 'redacted');
  const missing = RUNS.length * VALUES - acknowledged.length;
  const redacted = new Map(acknowledged.map(({ value, at }) => [value, at]));
  const isLate = (value: string, since: number) => (redacted.get(value) ?? since) < since;
  const findings = missing === 0 ? [] : [found('broken', `${missing} redactions did not end`)];
  for (const { since, values } of readLines<Asked>(folder, 'asked'))
    for (const value of values.filter(each => isLate(each, since)))
      findings.push(found('leaked', `${value} was in a request to the model`));
  for (const { since, runId } of readLines<Forked>(folder, 'forked'))
    for (const value of valuesIn(JSON.stringify(await store.read(runId))).filter(each => isLate(each, since)))
      findings.push(found('leaked', `${value} was in ${runId}, which was forked later`));
  for await (const { runId } of listAll(store)) {
    if (RUNS.some(own => own === runId) || (await store.get(runId)) === undefined) continue;
    const fault = await findFault(store, runId);
    if (fault !== undefined) findings.push(found('broken', fault));
    await store.delete(runId, { cascade: true });
  }
  for (const value of valuesIn(await readAll()))
    if (redacted.has(value)) findings.push(found('leaked', `${value} is in the store`));
  return findings;
}

async function findBroken(store: Store, folder: string): Promise<Finding[]> {
  const faults = readLines<Fault>(folder, 'faults').map(({ what }) => what);
  const ends = await Promise.all(RUNS.map(runId => findFault(store, runId)));
  return [...faults, ...ends.flatMap(fault => fault ?? [])].map(what => found('broken', what));
}

async function attackSqlite(folder: string, seed: number, isCareless: boolean): Promise<Finding[]> {
  const readAll = async () =>
    readdirSync(folder)
      .filter(name => name.startsWith('runs.db'))
      .map(name => readFileSync(join(folder, name), 'latin1'))
      .join('\n');
  return await attack({ folder, db: join(folder, 'runs.db'), seed, isCareless }, readAll);
}

async function attackPostgres(folder: string, seed: number): Promise<Finding[]> {
  const server = await startPostgres();
  const db = await server.createDatabase();
  const readAll = async () => {
    const client = new pg.Client(db);
    await client.connect();
    const tables = await client.query("SELECT tablename FROM pg_tables WHERE schemaname = 'agentchart'");
    const texts: string[] = [];
    for (const { tablename } of tables.rows) {
      const { rows } = await client.query(`SELECT t::text AS text FROM agentchart."${tablename}" t`);
      texts.push(...rows.map(({ text }) => String(text)));
    }
    const blobs = await client.query('SELECT bytes FROM agentchart.blobs');
    texts.push(...blobs.rows.map(({ bytes }) => Buffer.from(bytes).toString('latin1')));
    await client.end();
    return texts.join('\n');
  };
  try {
    return await attack({ folder, db, seed, isCareless: false }, readAll);
  } finally {
    await server.stop();
  }
}

export const redactionCases: readonly AttackCase[] = [
  {
    name: 'several at once, during loads, forks, continuations and appends',
    short: true,
    run: ({ folder, seed }) => attackSqlite(folder, seed, false),
  },
  ...Array.from({ length: 3 }, (_, index) => ({
    name: `several at once, again (${index + 1})`,
    run: ({ folder, seed }: { folder: string; seed: number }) =>
      attackSqlite(folder, seed * 100 + index, false),
  })),
  ...(POSTGRES_BIN === undefined
    ? []
    : [
        {
          name: 'several at once on PostgreSQL, during loads, forks, continuations and appends',
          run: ({ folder, seed }: { folder: string; seed: number }) => attackPostgres(folder, seed),
        },
      ]),
  {
    name: 'a store that compares no redactions',
    short: true,
    control: true,
    run: ({ folder, seed }) => attackSqlite(folder, seed, true),
  },
];
