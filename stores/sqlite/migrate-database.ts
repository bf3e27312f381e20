import type { DatabaseSync } from 'node:sqlite';
import { sumOfEntry, sumOfRecord, sumOfSnapshot } from './checksum.ts';
import type { Row } from './rows.ts';
import { SCHEMA } from './schema.ts';

/** The schema version before checksums. */
export const VERSION_WITHOUT_SUMS = 1;

/**
 * Brings a database without checksums to the present schema; the caller has the write lock, and foreign keys
 * off. Everything is kept as it is, damage too, and bound by checksums from here on. The tables are made anew,
 * so that a process with the older program, should there be one, can read nothing wrong and write nothing.
 */
export function migrateDatabase(db: DatabaseSync): void {
  db.exec('DROP INDEX IF EXISTS runs_by_age; DROP INDEX IF EXISTS runs_by_status');
  for (const table of TABLES) db.exec(`ALTER TABLE ${table} RENAME TO old_${table}`);
  db.exec(SCHEMA);
  db.exec(`INSERT INTO runs (${RUN_COLUMNS}, sum) SELECT ${RUN_COLUMNS}, '' FROM old_runs`);
  db.exec(`INSERT INTO events (${EVENT_COLUMNS}, sum) SELECT ${EVENT_COLUMNS}, '' FROM old_events`);
  db.exec('INSERT INTO items SELECT * FROM old_items');
  db.exec(
    `INSERT INTO snapshots (${SNAPSHOT_COLUMNS}, sum) SELECT ${SNAPSHOT_COLUMNS}, '' FROM old_snapshots`,
  );
  for (const table of TABLES.toReversed()) db.exec(`DROP TABLE old_${table}`);
  for (const run of db.prepare('SELECT * FROM runs').all()) bindJournal(db, run);
  const bindSnapshot = db.prepare('UPDATE snapshots SET sum = ? WHERE run_id = ?');
  for (const { run_id, seq, state } of db.prepare('SELECT * FROM snapshots').all())
    bindSnapshot.run(sumOfSnapshot(String(run_id), Number(seq), String(state)), String(run_id));
}

const TABLES = ['runs', 'events', 'items', 'snapshots'];
const RUN_COLUMNS =
  'run_id, agent, status, created_at, updated_at, base, seq, continues, epoch, owner, lease_until';
const EVENT_COLUMNS = 'run_id, seq, type, at, json';
const SNAPSHOT_COLUMNS = 'run_id, seq, state';

function bindJournal(db: DatabaseSync, run: Row): void {
  const key = String(run.run_id);
  let sum = sumOfRecord(run);
  const bindEntry = db.prepare('UPDATE events SET sum = ? WHERE run_id = ? AND seq = ?');
  const entries = db.prepare('SELECT seq, json FROM events WHERE run_id = ? AND seq <= ? ORDER BY seq');
  for (const { seq, json } of entries.all(key, Number(run.seq))) {
    sum = sumOfEntry(sum, String(json));
    bindEntry.run(sum, key, Number(seq));
  }
  db.prepare('UPDATE runs SET sum = ? WHERE run_id = ?').run(sum, key);
}
