import { randomUUID } from 'node:crypto';
import type { RunEvent } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { Labels } from '../protocol/listing/label.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { changedThread, isOpen, type RunRecord, type Store } from '../protocol/store.ts';
import { decodeJson } from './journal-text.ts';
import { recordClaim, refuseClaim } from './lease.ts';
import { readListFilter, WHOLE } from './list-query.ts';
import { planDeletion, planPruning, pruneRuns } from './plan-deletion.ts';
import { insertAdopted, insertRun, makeAppends } from './postgres/appends.ts';
import { Database, type PostgresPool } from './postgres/database.ts';
import { postgresDeltas, postgresFeed } from './postgres/feed.ts';
import { decodeEntries, readTexts, rewriteRun } from './postgres/journal.ts';
import { makeListener, NOTIFY_WORK, topicOf } from './postgres/listener.ts';
import {
  countRuns,
  dropRuns,
  findRuns,
  LINK,
  locateRun,
  queryLatest,
  readBytes,
  readKinship,
  readSnapshot,
  recordOfRow,
  saveSnapshotAs,
  sumRunsIn,
  takeRuns,
  writeBlob,
} from './postgres/runs.ts';
import { quoteSchema } from './postgres/schema.ts';
import {
  assertUnredacted,
  countByStatus,
  existingRun,
  followChain,
  NO_REST,
  redactIn,
  refuseAppend,
  threadKeyOf,
} from './run-record.ts';
import { escapeText, type Transaction, toLease, toLinks, toRecord, toRunList } from './sql/rows.ts';
import { readTotalsQuery, toTotals } from './totals.ts';
import { Watchers } from './watchers.ts';

export type PostgresOptions = {
  /**
   * The schema with the tables, at most 40 letters, digits, spaces, `.`, `_` and `-`. Reserved words are names too, and
   * capital letters count. Default `agentchart`.
   */
  schema?: string;
  /** The clock of this process, in ms since the epoch. Default `Date.now`. */
  now?(): number;
  /**
   * A connection string for the connection that gets the server's notifications, if `target` goes through a transaction
   * pooler. Default: `target`.
   */
  listen?: string;
  /**
   * Whether missing tables are created and those of an older release are migrated. Default true. With `false`, only
   * `get` and `list` are sure to work on tables of an older release.
   */
  migrates?: boolean;
  /** How long a call waits for a server that was reached before and is away, in ms. Default 60 seconds. */
  patienceMs?: number;
  /** Receives what an operator should know about the server, one line each. Default: warnings of the process. */
  warn?(line: string): void;
};

const NAMES = optionNames<PostgresOptions>()('schema now listen migrates patienceMs warn');

/**
 * Returns a store in a PostgreSQL database (14 or later), which processes of several machines may share. `target` is a
 * connection string (`postgres://user:password@host/database`) or a `Pool` of the package `pg`, which the caller ends.
 * Needs `pg`. Tables are created on first use, and migrated if they are of an older release. A commit is durable before
 * its promise resolves, if the server's `synchronous_commit` is not off. The server's clock decides when leases end.
 * While the server cannot be reached, calls wait up to `patienceMs` for it. Damaged data is detected by checksums and
 * rejected, never returned.
 *
 * Deleted and redacted values are removed from the tables. The server's files keep them until a vacuum, its log until it
 * is recycled, and backups as long as they exist.
 *
 * @example
 * const agent = createAgent({ name, model, store: postgres('postgres://localhost/agents') });
 */
export function postgres(target: string | PostgresPool, options: PostgresOptions = {}): Store {
  refuseUnknownOptions('postgres', options, NAMES);
  const { schema = 'agentchart', now = Date.now, listen, migrates = true, patienceMs = 60_000 } = options;
  const { warn = line => process.emitWarning(line, { code: 'AGENTCHART_POSTGRES' }) } = options;
  const quoted = quoteSchema(schema);
  const database = new Database({ source: target, schema: quoted, listen, migrates, patienceMs, warn });
  return makeStore(database, now);
}

/**
 * 1. An append is one statement: it locks the run's record where `seq` and `epoch` are as expected, so the lock is the
 *    fence. Operations of several statements run in one transaction that locks the records first.
 * 2. Entries `runs.base` + 1 to `runs.seq` exist, which readers check.
 * 3. Callers see leases on their own clock; across machines, only the remaining time is compared.
 */
function makeStore(database: Database, now: () => number): Store {
  const watchers = new Watchers();
  const listener = makeListener(database, watchers);
  const appends = makeAppends(database, now);
  const query: Transaction = (text, ...values) => database.query(text, ...values);
  const locate = (runId: string) => locateRun(query, runId);
  /** Throws why a run was not inserted: it exists, or could not take its place. */
  const refuseNew = async ({
    runId,
    thread,
    labels,
  }: Pick<RunRecord, 'runId' | 'thread'> & { labels?: Labels }) => {
    const key = threadKeyOf(omitUndefined({ thread, labels }));
    if (thread === undefined || (await store.get(runId)) !== undefined) throw existingRun(runId);
    throw changedThread(thread, await queryLatest(query, key));
  };
  const store: Store = {
    deltas: postgresDeltas(query),
    feed: postgresFeed(database, now),

    async create(event, claim, rest = NO_REST) {
      const { beside = [], blobs = [], source } = rest;
      const events: RunEvent[] = [event, ...rest.events];
      const epoch = claim === undefined ? 0 : 1;
      if (claim !== undefined) events.push(recordClaim(claim, epoch, undefined));
      const commit = randomUUID();
      const wakeInMs = appends.untilOf(rest.wakeAt);
      const created = { event, rest, events, claim, commit, wakeInMs };
      const old = rest.place !== undefined && 'of' in rest.place ? rest.place.of : undefined;
      const find = () => appends.findCommit(escapeText(event.runId), events.length, commit);
      const made = await (beside.length === 0 && blobs.length === 0 && old === undefined
        ? database.queryOnce(...insertRun(created), find)
        : appends.insertWith(created, old, { beside, blobs }));
      if (made.length > 0) return { epoch, seq: events.length };
      if (source !== undefined)
        assertUnredacted(source.runId, await store.get(source.runId), source.redactions);
      return await refuseNew(event);
    },

    async adopt(run) {
      const { runId, seq, state } = run;
      const after = await queryLatest(query, threadKeyOf(run));
      const insert = insertAdopted(run, appends.untilOf(run.wakeAt), after);
      const made = await database.queryOnce(...insert, async () => {
        const snapshot = await store.loadSnapshot(runId);
        return snapshot?.seq === seq && JSON.stringify(snapshot.state) === JSON.stringify(state) ? [{}] : [];
      });
      if (made.length === 0) await refuseNew(run);
    },

    async append(runId, guard, events, standing) {
      const { after, redactions = 0 } = guard;
      const place = { after, redactions, epoch: 'epoch' in guard ? guard.epoch : null };
      const moved =
        events.length === 0
          ? await appends.setStanding(runId, place, standing)
          : await appends.write(runId, place, events, standing);
      if (moved) return { type: 'appended', seq: after + events.length };
      const refusal = refuseAppend(runId, await locate(runId), guard, { events, standing });
      return refusal ?? { type: 'conflict' };
    },

    async read(runId, after = 0, page) {
      return decodeEntries(runId, await readTexts(query, runId, Math.max(0, after), page));
    },

    async readJson(runId, limit = Number.POSITIVE_INFINITY) {
      const texts = await readTexts(query, runId, 0, { ...WHOLE, entries: limit });
      return texts.map(({ seq, text }) => decodeJson(runId, seq, text));
    },

    async claim(runId, request) {
      for (;;) {
        const { seq, redactions, now, row, ...place } = await locate(runId);
        if (request.unlessEnded === true && !isOpen(place)) return { type: 'ended' };
        const lease = toLease(row);
        const refusal = refuseClaim(lease, { ...request, now });
        if (refusal !== undefined) return { ...refusal, until: refusal.until - now + request.now };
        const epoch = place.epoch + 1;
        const event = recordClaim(request, epoch, lease);
        const claimed = { request, epoch, from: row.lease_until };
        const guard = { after: seq, epoch: place.epoch, redactions };
        if (await appends.write(runId, guard, [event], {}, claimed))
          return { type: 'claimed', epoch, seq: seq + 1 };
      }
    },

    async renew(leases, { leaseMs }) {
      const renewed = await query(
        `UPDATE @runs r SET lease_until = @now_ms() + $3::float8
         FROM (SELECT o.run FROM unnest($1::text[], $2::int8[]) AS held (run_id, epoch)
           JOIN @runs o USING (run_id, epoch) WHERE o.owner IS NOT NULL ORDER BY o.run FOR UPDATE OF o) locked
         WHERE r.run = locked.run RETURNING r.run_id, r.epoch::float8 AS epoch`,
        ...[leases.map(({ runId }) => escapeText(runId)), leases.map(({ epoch }) => epoch), leaseMs],
      );
      const kept = new Map(renewed.map(row => [row.run_id, row.epoch]));
      return leases.filter(({ runId, epoch }) => kept.get(escapeText(runId)) !== epoch);
    },

    async release(runId, epoch, wakeAt) {
      const released = await query(
        `UPDATE @runs SET owner = NULL, lease_until = NULL, wake_at = LEAST(wake_at, @now_ms() + $3::float8)
         WHERE run_id = $1 AND epoch = $2
         RETURNING CASE WHEN status = 'running' OR wake_at <= @now_ms() THEN ${NOTIFY_WORK} END AS told`,
        ...[escapeText(runId), epoch, appends.untilOf(wakeAt) ?? null],
      );
      if (released.length === 0) await locate(runId);
    },

    watch(runId, onChange) {
      listener.start();
      return watchers.watch(topicOf(runId), onChange);
    },

    takeWork: request => takeRuns(query, request, now()),

    countWork: request => countRuns(query, request),

    watchWork(onWork) {
      listener.start();
      return watchers.watchWork(onWork);
    },

    async saveSnapshot(runId, { seq, redactions = 0, state }) {
      const text = JSON.stringify(state);
      await saveSnapshotAs(query, { key: escapeText(runId), seq, redactions, text });
      await locate(runId);
    },

    loadSnapshot: runId => readSnapshot(query, runId),

    async get(runId) {
      const [row] = await query(
        `SELECT ${recordOfRow('$2')} FROM @runs r WHERE r.run_id = $1`,
        ...[escapeText(runId), now()],
      );
      return row && toRecord(row);
    },

    async list(filter = {}) {
      const wanted = readListFilter(filter);
      return toRunList(await findRuns(query, wanted, now()), wanted, filter);
    },

    async totals(filter = {}, wanted = {}) {
      return toTotals(await sumRunsIn(query, readTotalsQuery(filter, wanted)));
    },

    async assertRoom() {
      if (!database.isFull) return;
      // The table grows on disk although no other transaction sees the row.
      await database.transact(async query => {
        const [row] = await query(
          `INSERT INTO @listeners (name, cursor, owner, until)
           SELECT 'room ' || gen_random_uuid(), string_agg(md5(i::text), ''), '', 0 FROM generate_series(1, 32768) i
           RETURNING name`,
        );
        await query(`DELETE FROM @listeners WHERE name = $1`, row?.name);
      });
      database.isFull = false;
    },

    async count() {
      return countByStatus(await query(`SELECT status, count(*) AS count FROM @runs GROUP BY status`));
    },

    async putBlob(runId, digest, text, redactions) {
      if (redactions === undefined) {
        const { run } = await locate(runId);
        return await writeBlob(query, { run, digest, text });
      }
      await database.transact(async query => {
        const place = await locateRun(query, runId, 'FOR SHARE');
        assertUnredacted(runId, place, redactions);
        await writeBlob(query, { run: place.run, digest, text });
      });
    },

    readBlob: (runId, digest, offset, length) => readBytes(query, { runId, digest, offset, length }),

    async chain(runId) {
      const rows = await query(
        `WITH RECURSIVE up AS (SELECT ${LINK} FROM @runs r WHERE run_id = $1
           UNION SELECT ${LINK} FROM @runs r JOIN up ON r.run_id = up.continues)
         SELECT * FROM up`,
        escapeText(runId),
      );
      const links = toLinks(rows);
      return followChain(runId, id => links.get(id));
    },

    async delete(runIds, given = {}) {
      const options = { ...given, now: given.now ?? now() };
      return await database.transact(async query => {
        const kinship = await readKinship(query, [runIds].flat(), options.now);
        const doomed = planDeletion(kinship, runIds, options);
        await dropRuns(query, doomed);
        return doomed;
      });
    },

    async prune(options) {
      return await pruneRuns(store, options, (runIds, gone) =>
        database.transact(async query => {
          const at = options.now ?? now();
          const kinship = await readKinship(query, runIds, at);
          const doomed = planPruning(kinship, runIds, gone, { ...options, now: at });
          if (options.dryRun !== true) await dropRuns(query, doomed);
          return doomed;
        }),
      );
    },

    redact: (runId, options) => redactIn(store, runId, options),

    rewrite: (runId, redaction) => database.transact(query => rewriteRun(query, runId, redaction)),

    async close() {
      listener.close();
      watchers.clear();
      await database.close();
    },
  };
  return store;
}
