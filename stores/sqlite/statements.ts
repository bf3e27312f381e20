import type { DatabaseSync, StatementSync } from 'node:sqlite';

const SQL = {
  insertRun: `INSERT INTO runs (run_id, agent, status, created_at, updated_at, base, seq, continues, epoch)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)`,
  insertEvent: 'INSERT INTO events (run_id, seq, type, at, json) VALUES (?, ?, ?, ?, ?)',
  insertItem: 'INSERT OR IGNORE INTO items (item_id, run_id, seq) VALUES (?, ?, ?)',
  advance: 'UPDATE runs SET seq = ?, updated_at = ? WHERE run_id = ?',
  setStatus: 'UPDATE runs SET status = ? WHERE run_id = ? AND status <> ?',
  setLease: 'UPDATE runs SET epoch = ?, owner = ?, lease_until = ? WHERE run_id = ?',
  renew: 'UPDATE runs SET lease_until = ? WHERE run_id = ? AND epoch = ? AND owner IS NOT NULL',
  release: 'UPDATE runs SET owner = NULL, lease_until = NULL WHERE run_id = ? AND epoch = ?',
  saveSnapshot: `INSERT INTO snapshots (run_id, seq, state) VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET seq = excluded.seq, state = excluded.state WHERE excluded.seq >= seq`,
  position: 'SELECT run_id, base, seq, epoch, owner, lease_until FROM runs WHERE run_id = ?',
  entries: 'SELECT seq, json FROM events WHERE run_id = ? AND seq > ? AND seq <= ? ORDER BY seq',
  snapshot: 'SELECT seq, state FROM snapshots WHERE run_id = ?',
  run: 'SELECT * FROM runs WHERE run_id = ?',
  runs: 'SELECT * FROM runs ORDER BY created_at DESC, run_id DESC LIMIT ?',
  runsByStatus: 'SELECT * FROM runs WHERE status = ? ORDER BY created_at DESC, run_id DESC LIMIT ?',
  item: `SELECT items.run_id, items.seq, events.json FROM items
    LEFT JOIN events ON events.run_id = items.run_id AND events.seq = items.seq WHERE item_id = ?`,
} as const;

export type Statements = Record<keyof typeof SQL, StatementSync>;

/** Every statement the store uses, prepared once for a connection. Throws when a table is missing. */
export function prepareStatements(db: DatabaseSync): Statements {
  return {
    insertRun: db.prepare(SQL.insertRun),
    insertEvent: db.prepare(SQL.insertEvent),
    insertItem: db.prepare(SQL.insertItem),
    advance: db.prepare(SQL.advance),
    setStatus: db.prepare(SQL.setStatus),
    setLease: db.prepare(SQL.setLease),
    renew: db.prepare(SQL.renew),
    release: db.prepare(SQL.release),
    saveSnapshot: db.prepare(SQL.saveSnapshot),
    position: db.prepare(SQL.position),
    entries: db.prepare(SQL.entries),
    snapshot: db.prepare(SQL.snapshot),
    run: db.prepare(SQL.run),
    runs: db.prepare(SQL.runs),
    runsByStatus: db.prepare(SQL.runsByStatus),
    item: db.prepare(SQL.item),
  };
}
