import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { MOST_WORDS } from '../../protocol/listing/words.ts';
import { AWAITING } from '../plan-deletion.ts';

/** The number through the index of ids, then the row: a damaged index is detected, because `run_id` is read from the row. */
const FROM_RUN = 'FROM runs WHERE run = (SELECT run FROM runs WHERE run_id = ?)';

export const RECORD = `runs.run_id, runs.agent, runs.title, runs.status, runs.created_at, runs.updated_at, runs.base,
  runs.seq, runs.continues, runs.thread, runs.place, runs.parent, runs.parent_call, runs.fork_of, runs.fork_at, runs.progress, runs.epoch, runs.redactions,
  runs.owner, runs.lease_until, runs.agent_version, runs.chart_version, runs.chart_hash, runs.wake_at,
  runs.reserved_until,
  (SELECT json_group_object(name, value) FROM labels WHERE labels.run = runs.run) AS labels`;

const LINK = 'runs.run_id, runs.created_at, runs.redactions, runs.seq, runs.continues';

/** The highest position that an append has or had. */
const LAST_POSITION = `max((SELECT lowest FROM feed), (SELECT ifnull(max(position), 0) FROM appends))`;

/** Parameters have no numbers: Node 22.13 takes `?1` for a name and refuses its value. */
const SQL = {
  begin: 'BEGIN IMMEDIATE',
  beginRead: 'BEGIN DEFERRED',
  commit: 'COMMIT',
  rollBack: 'ROLLBACK',
  beginPart: 'SAVEPOINT part',
  endPart: 'RELEASE part',
  undoPart: 'ROLLBACK TO part',
  insertRun: `INSERT INTO runs (run_id, agent, agent_version, chart_version, chart_hash, title, search, parent,
      parent_call, fork_of, fork_at, continues, thread, thread_key, place, session, status, turns, tokens,
      cached, cached_of, cost, active_ms, doubted, model, error_code, progress, wake_at, created_at, updated_at, base,
      seq, epoch, end_sum)
    VALUES ($run_id, $agent, $agent_version, $chart_version, $chart_hash, $title, $search, $parent,
      $parent_call, $fork_of, $fork_at, $continues, $thread, $thread_key, $place, $session, $status, $turns, $tokens,
      $cached, $cached_of, $cost, $active_ms, $doubted, $model, $error_code, $progress, $wake_at, $created_at,
      $created_at, $base, $base, 0, $sum)`,
  insertLabel: 'INSERT INTO labels (run, name, value, created_at, run_id) VALUES (?, ?, ?, ?, ?)',
  addText: 'INSERT INTO texts (id, chars, text) VALUES ((? << 32) + ?, ?, ?)',
  charsOfTexts: 'SELECT total(chars) AS chars FROM texts WHERE id > (? << 32) AND id < (? + 1) << 32',
  trimTexts: `DELETE FROM texts WHERE id IN (
    SELECT id FROM (SELECT id, sum(chars) OVER (ORDER BY id DESC) AS total FROM texts
      WHERE id > (? << 32) AND id < (? + 1) << 32) WHERE total > ${MOST_WORDS})`,
  dropTexts: 'DELETE FROM texts WHERE id >= (? << 32) + ? AND id < (? + 1) << 32',
  dropNames: 'DELETE FROM texts WHERE id = ? << 32',
  charsToIndex: 'SELECT total(chars) AS chars FROM texts_to_index',
  dropFromIndex: `INSERT INTO texts_index (texts_index, rowid, text) SELECT 'delete', id, text FROM texts_to_drop`,
  addToIndex: `INSERT INTO texts_index (rowid, text) SELECT id, text FROM texts WHERE id IN (SELECT id FROM texts_to_index)`,
  endDropping: 'DELETE FROM texts_to_drop',
  endAdding: 'DELETE FROM texts_to_index',
  latest: `SELECT run_id, status, place FROM runs WHERE thread_key = ? AND place IS NOT NULL ORDER BY place DESC LIMIT 1`,
  leavePlace: 'UPDATE runs SET place = NULL WHERE run_id = ?',
  nameJournal: 'INSERT INTO journals (run_id, run) VALUES (?, ?)',
  insertRow: `INSERT INTO appends (place, position, state_hash, sums, json)
    VALUES ((? << 32) + ?, 1 + ${LAST_POSITION}, ?, ?, ?)`,
  feed: `SELECT position, run_id, appends.seq AS seq, length(sums) AS sums
    FROM appends JOIN runs ON runs.run = appends.run WHERE position >= ? ORDER BY position LIMIT ?`,
  feedEnd: `SELECT ${LAST_POSITION} AS position,
    (SELECT seq FROM appends ORDER BY position DESC LIMIT 1) AS seq`,
  raiseFloor: `UPDATE feed SET lowest = ${LAST_POSITION}`,
  listener: 'SELECT cursor, owner, until FROM listeners WHERE name = ?',
  setListener: `INSERT INTO listeners (name, cursor, owner, until) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET cursor = excluded.cursor, owner = excluded.owner, until = excluded.until`,
  advance: 'UPDATE runs SET seq = ?, updated_at = ?, end_sum = ? WHERE run = ?',
  setProgress: `UPDATE runs SET turns = $turns, tokens = $tokens, cached = $cached, cached_of = $cached_of, cost = $cost,
    active_ms = $active_ms, doubted = $doubted, model = $model, error_code = $error_code, progress = $progress
    WHERE run = $run`,
  setWakeAt: 'UPDATE runs SET wake_at = ? WHERE run = ?',
  wake: `UPDATE runs SET wake_at = min(ifnull(wake_at, ?), ?)
    WHERE run_id = ? AND status IN ('running', 'waiting')`,
  setStatus: 'UPDATE runs SET status = ? WHERE run = ?',
  setLease: `UPDATE runs SET epoch = ?, owner = ?, lease_until = ?, reserved_until = NULL,
    wake_at = CASE WHEN wake_at <= ? THEN NULL ELSE wake_at END WHERE run = ?`,
  renew: 'UPDATE runs SET lease_until = ? WHERE run_id = ? AND epoch = ? AND owner IS NOT NULL',
  release: `UPDATE runs SET owner = NULL, lease_until = NULL, wake_at = min(ifnull(wake_at, ?), ifnull(?, wake_at))
    WHERE run = ? AND epoch = ?`,
  processes: `SELECT json_remove(owner, '$.id') AS process, min(owner) AS owner FROM runs
    WHERE (status = 'running' OR owner IS NOT NULL) AND lease_until > ? AND json_valid(owner) GROUP BY 1`,
  candidates: `SELECT run_id FROM runs
    WHERE run IN (
        SELECT run FROM runs WHERE status = 'running' OR owner IS NOT NULL
        UNION SELECT run FROM runs WHERE wake_at IS NOT NULL AND wake_at <= ?)
      AND status IN ('running', 'waiting') AND (reserved_until IS NULL OR reserved_until <= ?)
      AND (owner IS NULL OR lease_until <= ?
        OR (json_valid(owner) AND json_remove(owner, '$.id') IN (SELECT value FROM json_each(?))))
    ORDER BY updated_at, run`,
  reserve: 'UPDATE runs SET reserved_until = ? WHERE run_id = ?',
  dataVersion: 'PRAGMA data_version',
  changedRuns: `SELECT DISTINCT run_id FROM appends JOIN runs ON runs.run = appends.run WHERE position > ?`,
  saveSnapshot: `INSERT INTO snapshots (run, seq, sum, state) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET seq = excluded.seq, sum = excluded.sum, state = excluded.state
    WHERE excluded.seq >= seq`,
  position: `SELECT run, run_id, base, seq, epoch, redactions, end_sum AS sum, status, wake_at,
    EXISTS (SELECT 1 FROM appends WHERE place > (runs.run << 32) + runs.seq AND place < (runs.run + 1) << 32) AS has_rows_past_end
    ${FROM_RUN}`,
  lease: 'SELECT run_id, owner, lease_until FROM runs WHERE run = ?',
  run: `SELECT ${RECORD} ${FROM_RUN}`,
  chain: `WITH RECURSIVE up AS (SELECT ${LINK} FROM runs WHERE run_id = ?
    UNION SELECT ${LINK} FROM up JOIN runs ON runs.run_id = up.continues) SELECT * FROM up`,
  countByStatus: 'SELECT status, count(*) AS count FROM runs GROUP BY status',
  journal: 'SELECT 1 FROM journals WHERE run_id = ?',
  rows: `SELECT seq, state_hash, sums, json FROM appends
    WHERE place > (? << 32) + ? AND place <= (? << 32) + ? ORDER BY place`,
  rowThatEnds: 'SELECT sums FROM appends WHERE place = (? << 32) + ?',
  snapshot: `SELECT snapshots.seq, snapshots.sum, state, runs.base FROM snapshots JOIN runs USING (run)
    WHERE run = (SELECT run FROM runs WHERE run_id = ?)`,
  insertBlob: 'INSERT OR REPLACE INTO blobs (digest, start, bytes, sum) VALUES (?, ?, ?, ?)',
  referBlob: 'INSERT OR IGNORE INTO run_blobs (run, digest) VALUES (?, ?)',
  shareBlobs: `INSERT INTO run_blobs (run, digest) SELECT ?, digest FROM run_blobs
    WHERE run = (SELECT run FROM runs WHERE run_id = ?)`,
  hasBlob: `SELECT 1 FROM run_blobs WHERE run = (SELECT run FROM runs WHERE run_id = ?) AND digest = ?`,
  isBlobKept: 'SELECT 1 FROM run_blobs WHERE digest = ? LIMIT 1',
  blobParts:
    'SELECT start, bytes, sum FROM blobs WHERE digest = ? AND start >= ? AND start < ? ORDER BY start',
  children: 'SELECT run_id FROM runs WHERE parent = ? ORDER BY run',
  continuations: 'SELECT run_id FROM runs WHERE continues = ? ORDER BY run',
  suspensions: `SELECT run_id, json FROM runs JOIN appends
      ON appends.place > (runs.run << 32) AND appends.place < (runs.run + 1) << 32
    WHERE status IN ('running', 'waiting')
      AND (${AWAITING.map(part => `instr(json, '${part}') > 0`).join(' OR ')})
    ORDER BY appends.place`,
  blobsOfRun: 'SELECT digest FROM run_blobs WHERE run = ?',
  unreferBlob: 'DELETE FROM run_blobs WHERE run = ? AND digest = ?',
  dropBlob: 'DELETE FROM blobs WHERE digest = ?',
  dropLabels: 'DELETE FROM labels WHERE run = ?',
  dropSnapshot: 'DELETE FROM snapshots WHERE run = ?',
  dropRows: 'DELETE FROM appends WHERE place > (? << 32) AND place < (? + 1) << 32',
  dropRun: 'DELETE FROM runs WHERE run = ?',
  dropJournal: 'DELETE FROM journals WHERE run_id = ?',
  deltas: `SELECT followed_until, seq, json FROM deltas WHERE run = (SELECT run FROM runs WHERE run_id = ?)`,
  followDeltas: `INSERT INTO deltas (run, followed_until) SELECT run, ? FROM runs WHERE run_id = ?
    ON CONFLICT DO UPDATE SET followed_until = max(followed_until, excluded.followed_until)`,
  forgetDeltas: 'DELETE FROM deltas WHERE followed_until < ?',
  saveDeltas: `UPDATE deltas SET seq = ?, json = ?
    WHERE run = (SELECT run FROM runs WHERE run_id = ? AND redactions = ?) AND followed_until > ?`,
  clearDeltas:
    'UPDATE deltas SET seq = NULL, json = NULL WHERE run = (SELECT run FROM runs WHERE run_id = ?)',
  dropDeltas: 'DELETE FROM deltas WHERE run = ?',
  fillRoom: 'INSERT OR REPLACE INTO deltas (run, followed_until, json) VALUES (-1, 0, hex(zeroblob(524288)))',
  clearRoom: 'DELETE FROM deltas WHERE run = -1',
  rewriteRow: 'UPDATE appends SET state_hash = ?, sums = ?, json = ? WHERE place = (? << 32) + ?',
  rewriteEnd: 'UPDATE runs SET end_sum = ? WHERE run = ?',
  countRedaction: 'UPDATE runs SET redactions = redactions + 1 WHERE run = ?',
  setTitle: 'UPDATE runs SET title = ?, search = ? WHERE run = ?',
} as const;

export type Statements = Record<keyof typeof SQL, StatementSync> & {
  prepare(text: string): StatementSync;
};

export function prepareStatements(db: DatabaseSync): Statements {
  const prepared = Object.entries(SQL).map(([name, text]) => [name, db.prepare(text)] as const);
  const byName = Object.fromEntries(prepared) as Record<keyof typeof SQL, StatementSync>;
  return { ...byName, prepare: text => db.prepare(text) };
}
