import type { DatabaseSync } from 'node:sqlite';
import * as z from 'zod';
import { sumOfEntry, sumOfRecord, sumOfSnapshot } from '../../sql/checksum.ts';
import { escapeOptional, type Row } from '../../sql/rows.ts';
import { fillListing } from './fill-listing.ts';
import {
  APPENDS,
  DELTAS,
  FEED,
  KINSHIP,
  LISTED,
  LISTING,
  REDACTED,
  RESERVED,
  SCHEMA,
  SCHEMA_VERSION,
  WORK,
} from './schema.ts';

/**
 * The schema versions that can be migrated: 1 has no checksums, 2 may have no blobs, 3 has no state hashes, 4 has nothing
 * for lists, 5 has no feed, 6 knows no time to wake a run, 7 counts no redactions.
 */
export type OldVersion = 1 | 2 | 3 | 4 | 5 | 6 | 7;

/** Whether a database with this version can be migrated. */
export function isOldVersion(version: unknown): version is OldVersion {
  return typeof version === 'number' && Number.isInteger(version) && version >= 1 && version < SCHEMA_VERSION;
}

/**
 * Migrates a database of an earlier release to the current schema. The caller holds the write lock and has turned
 * foreign keys off. All data is kept unchanged, including damage. Checksums are added only if the database had none.
 * Tables are recreated or a column is renamed, so that a process with an older program can no longer write to them.
 */
export function migrateDatabase(db: DatabaseSync, version: OldVersion): void {
  if (version < 3) migrateJournals(db, version);
  if (version === 3) db.exec(FROM_SCHEMA_3);
  if (version === 3 || version === 4) db.exec(FROM_SCHEMA_4);
  if (version >= 3 && version <= 5) db.exec(FROM_SCHEMA_5);
  if (version >= 3 && version <= 6) db.exec(FROM_SCHEMA_6);
  if (version === 6) db.exec('ALTER TABLE feed RENAME COLUMN floor TO lowest');
  if (version >= 3) db.exec(FROM_SCHEMA_7);
  if (version <= 6) db.exec(LOOK_ONCE);
  if (version < 5) fillListing(db);
}

function migrateJournals(db: DatabaseSync, version: OldVersion): void {
  const old = TABLES.filter(table => hasTable(db, table));
  for (const index of INDEXES) db.exec(`DROP INDEX IF EXISTS ${index}`);
  for (const table of old) db.exec(`ALTER TABLE ${table} RENAME TO old_${table}`);
  if (version === 1) {
    for (const table of ['runs', 'events', 'snapshots'])
      db.exec(`ALTER TABLE old_${table} ADD COLUMN sum TEXT NOT NULL DEFAULT ''`);
  }
  db.exec(SCHEMA);
  db.exec(COPY_RUNS);
  copyJournals(db);
  if (old.includes('run_blobs')) db.exec(COPY_BLOBS);
  for (const table of old.toReversed()) db.exec(`DROP TABLE old_${table}`);
  if (version === 1) bindEverything(db);
}

const FROM_SCHEMA_3 = `
DROP TABLE items;
ALTER TABLE appends ADD COLUMN state_hash TEXT;
${KINSHIP}
`;

const FROM_SCHEMA_4 = `
ALTER TABLE runs RENAME COLUMN sum TO last_sum;
${LISTED.map(column => `ALTER TABLE runs ADD COLUMN ${column};`).join('\n')}
DROP TABLE labels;
${LISTING}
`;

/** Appends without a position get one in the order of their runs. */
const FROM_SCHEMA_5 = `
ALTER TABLE appends RENAME TO old_appends;
${APPENDS}
INSERT INTO appends (place, position, commit_id, wakes, state_hash, sums, json)
  SELECT place, row_number() OVER (ORDER BY place), commit_id, wakes, state_hash, sums, json
  FROM old_appends ORDER BY place;
DROP TABLE old_appends;
${DELTAS}
${FEED}
`;

const FROM_SCHEMA_6 = `
ALTER TABLE runs ADD COLUMN ${RESERVED};
${WORK}
`;

const FROM_SCHEMA_7 = `
ALTER TABLE runs ADD COLUMN ${REDACTED};
ALTER TABLE runs RENAME COLUMN last_sum TO end_sum;
PRAGMA user_version = ${SCHEMA_VERSION};
`;

/** When a run that waits has to be driven again is not known: each is looked at once. */
const LOOK_ONCE = `UPDATE runs SET wake_at = updated_at WHERE status = 'waiting'`;

const TABLES = ['runs', 'events', 'items', 'snapshots', 'run_blobs'];
const INDEXES = ['runs_by_age', 'runs_by_status', 'run_blobs_by_digest'];

/** Runs are numbered by age. Remains of runs without a record come first, so that no new run gets their number. */
const COPY_RUNS = `
INSERT INTO journals (run_id, run)
  SELECT run_id, row_number() OVER (ORDER BY created_at IS NOT NULL, created_at, run_id)
  FROM (SELECT run_id FROM old_runs UNION SELECT run_id FROM old_events UNION SELECT run_id FROM old_snapshots)
    LEFT JOIN old_runs USING (run_id);
INSERT INTO runs (run, run_id, agent, continues, status, created_at, updated_at, base, seq, end_sum, epoch, owner, lease_until)
  SELECT run, run_id, agent, continues, status, created_at, updated_at, base, seq, sum, epoch, owner, lease_until
  FROM old_runs JOIN journals USING (run_id) ORDER BY run;
INSERT INTO snapshots (run, seq, sum, state)
  SELECT run, seq, sum, state FROM old_snapshots JOIN journals USING (run_id);
`;

const COPY_BLOBS = `
INSERT INTO run_blobs (run, digest) SELECT run, digest FROM old_run_blobs JOIN journals USING (run_id);
`;

/** Copies one run at a time, which needs no space for sorting. Entries with an impossible number are left out. */
const COPY_JOURNAL = `
INSERT INTO appends (place, position, sums, json)
  SELECT (? << 32) + seq,
    (SELECT ifnull(max(position), 0) FROM appends) + row_number() OVER (ORDER BY seq), sum, json FROM old_events
  WHERE run_id = ? AND seq BETWEEN 1 AND 4294967295 ORDER BY seq
`;

function copyJournals(db: DatabaseSync): void {
  const copy = db.prepare(COPY_JOURNAL);
  const first = db.prepare('SELECT json FROM appends WHERE place = (? << 32) + 1');
  const setOrigin = db.prepare(
    'UPDATE runs SET agent_version = ?, chart_version = ?, chart_hash = ?, parent = ? WHERE run = ?',
  );
  for (const { run, run_id } of db.prepare('SELECT run, run_id FROM journals ORDER BY run').all()) {
    copy.run(Number(run), String(run_id));
    const origin = readOrigin(first.get(Number(run)));
    if (origin === undefined) continue;
    const { agent, chart, parent } = origin;
    const names = [escapeOptional(agent.version), chart.version, escapeOptional(chart.hash)];
    setOrigin.run(...names, escapeOptional(parent?.runId), Number(run));
  }
}

const originSchema = z.object({
  agent: z.object({ version: z.string().optional() }),
  chart: z.object({ version: z.int(), hash: z.string() }),
  parent: z.object({ runId: z.string() }).optional(),
});

/** Reads a run's origin from its first entry; returns `undefined` if the entry is missing or damaged. */
function readOrigin(row: Row | undefined): z.infer<typeof originSchema> | undefined {
  try {
    return originSchema.safeParse(JSON.parse(String(row?.json))).data;
  } catch {
    return undefined;
  }
}

function bindEverything(db: DatabaseSync): void {
  for (const run of db.prepare('SELECT * FROM runs').all()) bindJournal(db, run);
  const bindSnapshot = db.prepare('UPDATE snapshots SET sum = ? WHERE run = ?');
  const snapshots = db.prepare('SELECT run, run_id, seq, state FROM snapshots JOIN journals USING (run)');
  for (const { run, run_id, seq, state } of snapshots.all())
    bindSnapshot.run(sumOfSnapshot(String(run_id), Number(seq), String(state)), Number(run));
}

function bindJournal(db: DatabaseSync, record: Row): void {
  const [run, last] = [Number(record.run), Number(record.seq)];
  let sum = sumOfRecord(record);
  const bindEntry = db.prepare('UPDATE appends SET sums = ? WHERE place = (? << 32) + ?');
  const entries = db.prepare(
    'SELECT seq, json FROM appends WHERE place > (? << 32) AND place <= (? << 32) + ? ORDER BY place',
  );
  for (const { seq, json } of entries.all(run, run, last)) {
    sum = sumOfEntry(sum, String(json));
    bindEntry.run(sum, run, Number(seq));
  }
  db.prepare('UPDATE runs SET end_sum = ? WHERE run = ?').run(sum, run);
}

function hasTable(db: DatabaseSync, name: string): boolean {
  return db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').get(name) !== undefined;
}
