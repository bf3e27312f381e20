import type { DatabaseSync, StatementSync } from 'node:sqlite';

const SQL = {
  insertRun: `INSERT INTO runs (run_id, agent, status, created_at, updated_at, base, seq, continues, epoch, sum)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?)`,
  insertEvent: 'INSERT INTO events (run_id, seq, type, at, json, sum) VALUES (?, ?, ?, ?, ?, ?)',
  insertItem: 'INSERT OR IGNORE INTO items (item_id, run_id, seq) VALUES (?, ?, ?)',
  advance: 'UPDATE runs SET seq = ?, updated_at = ?, sum = ? WHERE run_id = ?',
  setStatus: 'UPDATE runs SET status = ? WHERE run_id = ? AND status <> ?',
  setLease: 'UPDATE runs SET epoch = ?, owner = ?, lease_until = ? WHERE run_id = ?',
  renew: 'UPDATE runs SET lease_until = ? WHERE run_id = ? AND epoch = ? AND owner IS NOT NULL',
  release: 'UPDATE runs SET owner = NULL, lease_until = NULL WHERE run_id = ? AND epoch = ?',
  saveSnapshot: `INSERT INTO snapshots (run_id, seq, state, sum) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET seq = excluded.seq, state = excluded.state, sum = excluded.sum
    WHERE excluded.seq >= seq`,
  position: 'SELECT run_id, base, seq, epoch, sum, owner, lease_until FROM runs WHERE run_id = ?',
  entries:
    'SELECT seq, type, at, json, sum FROM events WHERE run_id = ? AND seq > ? AND seq <= ? ORDER BY seq',
  entrySum: 'SELECT sum FROM events WHERE run_id = ? AND seq = ?',
  snapshot: `SELECT snapshots.*, runs.base FROM snapshots
    LEFT JOIN runs ON runs.run_id = snapshots.run_id WHERE snapshots.run_id = ?`,
  run: 'SELECT * FROM runs WHERE run_id = ?',
  trace: `SELECT 1 FROM events WHERE run_id = ?1 UNION ALL SELECT 1 FROM snapshots WHERE run_id = ?1 LIMIT 1`,
  runs: 'SELECT * FROM runs ORDER BY created_at DESC, run_id DESC LIMIT ?',
  runsByStatus: 'SELECT * FROM runs WHERE status = ? ORDER BY created_at DESC, run_id DESC LIMIT ?',
  insertBlob: 'INSERT OR REPLACE INTO blobs (digest, start, bytes, sum) VALUES (?, ?, ?, ?)',
  referBlob: 'INSERT OR IGNORE INTO run_blobs (run_id, digest) VALUES (?, ?)',
  shareBlobs: 'INSERT INTO run_blobs (run_id, digest) SELECT ?, digest FROM run_blobs WHERE run_id = ?',
  hasBlob: 'SELECT 1 FROM run_blobs WHERE run_id = ? AND digest = ?',
  isBlobKept: 'SELECT 1 FROM run_blobs WHERE digest = ? LIMIT 1',
  blobParts:
    'SELECT start, bytes, sum FROM blobs WHERE digest = ? AND start >= ? AND start < ? ORDER BY start',
  item: 'SELECT run_id, seq FROM items WHERE item_id = ?',
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
    entrySum: db.prepare(SQL.entrySum),
    snapshot: db.prepare(SQL.snapshot),
    run: db.prepare(SQL.run),
    trace: db.prepare(SQL.trace),
    runs: db.prepare(SQL.runs),
    runsByStatus: db.prepare(SQL.runsByStatus),
    insertBlob: db.prepare(SQL.insertBlob),
    referBlob: db.prepare(SQL.referBlob),
    shareBlobs: db.prepare(SQL.shareBlobs),
    hasBlob: db.prepare(SQL.hasBlob),
    isBlobKept: db.prepare(SQL.isBlobKept),
    blobParts: db.prepare(SQL.blobParts),
    item: db.prepare(SQL.item),
  };
}
