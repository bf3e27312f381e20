/*
 * Stores: implementations of the `Store` interface, in SQLite (this file and `sqlite/`), in PostgreSQL (`postgres.ts`)
 * and in memory (`memory.ts`), and the conformance checks that every store must pass (`conformance.ts`).
 */

import { resolve } from 'node:path';
import type { RunEvent } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import { type NamesOf, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import { type AppendResult, type ClaimResult, isOpen, type Store } from '../protocol/store.ts';
import { decodeJson, encodeEvent } from './journal-text.ts';
import { assertUndriven, recordClaim, refuseClaim } from './lease.ts';
import { foldText, readListFilter, WHOLE } from './list-query.ts';
import { planDeletion, planPruning, pruneRuns } from './plan-deletion.ts';
import {
  assertUnredacted,
  countByStatus,
  NO_REST,
  redactIn,
  refuseAppend,
  threadKeyOf,
} from './run-record.ts';
import { escapeText, newRunOf, readRedaction, toLease, toRunList } from './sql/rows.ts';
import { Connection } from './sqlite/connection.ts';
import { sqliteDeltas, sqliteFeed, watchChanges } from './sqlite/feed.ts';
import {
  changeStanding,
  readEntryRows,
  readRawEntries,
  rewriteEntries,
  rewriteWords,
  writeEvents,
  writeLease,
  writeWakeUps,
} from './sqlite/journal.ts';
import {
  chooseWork,
  describeRun,
  dropBlob,
  findCandidates,
  findLatest,
  findRunRows,
  insertRunRow,
  locateRunRow,
  makeKinship,
  packState,
  readBlobBytes,
  readChain,
  readStoredSnapshot,
  removeRuns,
  sumRuns,
  writeBlobRow,
  writeNames,
  writeSnapshot,
} from './sqlite/runs.ts';
import type { Statements } from './sqlite/statements.ts';
import { readTotalsQuery, toTotals } from './totals.ts';
import { Watchers } from './watchers.ts';

export type SqliteOptions = {
  /**
   * How long a call waits for another process's lock before it rejects with `store-locked`, in ms. Default 5000. The
   * wait does not block this process.
   */
  busyTimeoutMs?: number;
};

const NAMES: NamesOf<SqliteOptions> = { busyTimeoutMs: true };

/**
 * Returns a store in one SQLite file, which several processes of one machine may share. The file and its folder are
 * created on first use, and a file of an older release is migrated then. Relative paths start at the current working
 * directory. A commit is on disk before its promise resolves; writes of one turn of the event loop share a commit.
 * Damaged data is detected by checksums and rejected, never returned.
 *
 * @example
 * const agent = createAgent({ name, model, store: sqlite('runs.db') });
 */
export function sqlite(file = '.agentchart/runs.db', options: SqliteOptions = {}): Store {
  refuseUnknownOptions('sqlite', options, NAMES);
  const path = file === ':memory:' ? file : resolve(file);
  return makeStore(new Connection(path, options.busyTimeoutMs ?? 5000));
}

/**
 * 1. Every method is atomic, or reads only data that never changes.
 * 2. Entries `runs.base` + 1 to `runs.seq` exist, which readers check; `base` is 0 except for adopted runs.
 * 3. Only `rewrite` replaces an entry's JSON; readers verify its checksum (`sql/checksum.ts`).
 */
function makeStore(connection: Connection): Store {
  const watchers = new Watchers();
  const changes = watchChanges(connection, watchers);
  const store: Store = {
    deltas: sqliteDeltas(connection),
    feed: sqliteFeed(connection),

    async create(event, claim, rest = NO_REST) {
      const events: RunEvent[] = [event, ...rest.events];
      const epoch = claim === undefined ? 0 : 1;
      if (claim !== undefined) events.push(recordClaim(claim, epoch, undefined));
      const texts = events.map(encodeEvent);
      const created = await connection.write(sql => {
        for (const change of rest.beside ?? []) changeStanding(sql, change, event.at);
        const { source } = rest;
        if (source) assertUnredacted(source.runId, describeRun(sql, source.runId), source.redactions);
        const position = insertRunRow(sql, newRunOf(event, rest), rest.place);
        if (event.forkOf !== undefined) sql.shareBlobs.run(position.run, escapeText(event.forkOf.runId));
        const { words } = rest;
        const written = writeEvents(sql, event.runId, position, events, texts, omitUndefined({ words }));
        const { run, seq } = written;
        for (const blob of rest.blobs ?? []) writeBlobRow(sql, event.runId, blob);
        if (claim !== undefined) writeLease(sql, run, claim, epoch);
        return { epoch, seq };
      });
      if (claim === undefined) watchers.notifyWork();
      return created;
    },

    async adopt({ seq, state, ...adopted }) {
      const packed = packState(state);
      await connection.write(sql => {
        const after = findLatest(sql, threadKeyOf(adopted) ?? null)?.runId ?? null;
        const { run } = insertRunRow(sql, { ...adopted, base: seq }, { after });
        writeSnapshot(sql, { runId: adopted.runId, run, seq }, packed);
      });
    },

    async append(runId, guard, events, standing) {
      const texts = events.map(encodeEvent);
      const result = await connection.write<AppendResult>(sql => {
        const position = locateRunRow(sql, runId);
        const refusal = refuseAppend(runId, position, guard, { events, standing });
        if (refusal !== undefined) return refusal;
        const end = writeEvents(sql, runId, position, events, texts, standing);
        writeWakeUps(sql, position, standing, events.at(-1)?.at ?? 0);
        return { type: 'appended', seq: end.seq };
      });
      if ('input' in guard) watchers.notifyRun(runId);
      if ('input' in guard || standing.wakes !== undefined) watchers.notifyWork();
      return result;
    },

    read: (runId, after = 0, page) =>
      connection.query(sql => readEntryRows(sql, runId, Math.max(0, after), page)),

    async readJson(runId, entries = Number.POSITIVE_INFINITY) {
      const texts = await connection.query(sql => readRawEntries(sql, runId, 0, { ...WHOLE, entries }));
      return texts.map(({ seq, text }) => decodeJson(runId, seq, text));
    },

    async claim(runId, request) {
      const result = await connection.write<ClaimResult>(sql => {
        const position = locateRunRow(sql, runId);
        if (request.unlessEnded === true && !isOpen(position)) return { type: 'ended' };
        const lease = toLease(sql.lease.get(position.run));
        const refusal = refuseClaim(lease, request);
        if (refusal !== undefined) return refusal;
        const epoch = position.epoch + 1;
        const event = recordClaim(request, epoch, lease);
        const { run, seq } = writeEvents(sql, runId, position, [event], [encodeEvent(event)]);
        writeLease(sql, run, request, epoch);
        return { type: 'claimed', epoch, seq };
      });
      watchers.notifyRun(runId);
      return result;
    },

    renew: (leases, { now, leaseMs }) =>
      connection.write(sql =>
        leases.filter(
          ({ runId, epoch }) => Number(sql.renew.run(now + leaseMs, escapeText(runId), epoch).changes) === 0,
        ),
      ),

    async release(runId, epoch, wakeAt) {
      await connection.write(sql => {
        sql.release.run(wakeAt ?? null, wakeAt ?? null, locateRunRow(sql, runId).run, epoch);
      });
      watchers.notifyWork();
    },

    watch(runId, onChange) {
      const end = watchers.watch(runId, onChange);
      changes.start();
      return end;
    },

    async takeWork(request) {
      if (request.limit <= 0) return [];
      const candidates = await connection.query(sql => findCandidates(sql, request));
      if (candidates.length === 0) return [];
      return await connection.write(sql => {
        const taken = chooseWork(sql, candidates, request);
        for (const { runId } of taken) sql.reserve.run(request.now + request.reserveMs, escapeText(runId));
        return taken;
      });
    },

    countWork: request =>
      connection.read(sql => chooseWork(sql, findCandidates(sql, request), request).length),

    watchWork(onWork) {
      const end = watchers.watchWork(onWork);
      changes.start();
      return end;
    },

    async saveSnapshot(runId, { seq, redactions = 0, state }) {
      const packed = packState(state);
      await connection.write(sql => {
        const { run, redactions: now } = locateRunRow(sql, runId);
        if (now === redactions) writeSnapshot(sql, { runId, run, seq }, packed);
      });
    },

    loadSnapshot: runId => connection.query(sql => readStoredSnapshot(sql, runId)),

    get: runId => connection.query(sql => describeRun(sql, runId)),

    async list(filter = {}) {
      const query = readListFilter(filter);
      return toRunList(await connection.query(sql => findRunRows(sql, query)), query, filter);
    },

    async totals(filter = {}, wanted = {}) {
      const query = readTotalsQuery(filter, wanted);
      return toTotals(await connection.query(sql => sumRuns(sql, query)));
    },

    putBlob: (runId, digest, text, redactions) =>
      connection.write(sql => writeBlobRow(sql, runId, { digest, text, redactions })),

    readBlob: (runId, digest, offset, length) =>
      connection.query(sql => readBlobBytes(sql, runId, digest, { offset, length })),

    assertRoom: () => connection.assertRoom(),

    async count() {
      return countByStatus(await connection.query(sql => sql.countByStatus.all()));
    },

    chain: runId => connection.query(sql => readChain(sql, runId)),

    async delete(runIds, options = {}) {
      const removed = await connection.write(sql =>
        removeRuns(sql, planDeletion(makeKinship(sql), runIds, options)),
      );
      await connection.purge();
      return removed;
    },

    async prune(options) {
      const pruned = await pruneRuns(store, options, (runIds, gone) => {
        const plan = (sql: Statements) => planPruning(makeKinship(sql), runIds, gone, options);
        if (options.dryRun === true) return connection.read(plan);
        return connection.write(sql => removeRuns(sql, plan(sql)));
      });
      if (pruned.length > 0 && options.dryRun !== true) await connection.purgeIfFree();
      return pruned;
    },

    purge: () => connection.purge({ rebuild: true }),

    redact: (runId, options) => redactIn(store, runId, options),

    async rewrite(runId, redaction) {
      const { after, redactions, blobs, state, progress, words = '', event, now, isDead } = redaction;
      const { texts, title } = readRedaction(redaction);
      const events = event === undefined ? [] : [event];
      const eventTexts = events.map(encodeEvent);
      const packed = packState(state);
      const result = await connection.write<Exclude<AppendResult, { type: 'superseded' }>>(sql => {
        const position = locateRunRow(sql, runId);
        const lease = toLease(sql.lease.get(position.run));
        assertUndriven(runId, lease, { now, isDead }, 'redacted');
        if (after !== position.seq || redactions !== position.redactions) return { type: 'conflict' };
        sql.countRedaction.run(position.run);
        const wakeAt = lease !== undefined && isOpen(position) ? now : null;
        sql.release.run(wakeAt, wakeAt, position.run, position.epoch);
        const rewritten = rewriteEntries(sql, runId, position, texts);
        for (const digest of blobs) dropBlob(sql, position.run, digest);
        const { run, seq } = writeEvents(sql, runId, rewritten, events, eventTexts, { progress });
        if (title !== undefined) {
          sql.setTitle.run(title, foldText(title), run);
          sql.dropNames.run(run);
          writeNames(sql, run, describeRun(sql, runId));
        }
        rewriteWords(sql, run, seq, words);
        sql.dropSnapshot.run(run);
        sql.dropDeltas.run(run);
        writeSnapshot(sql, { runId, run, seq }, packed);
        return { type: 'appended', seq };
      });
      if (result.type === 'appended') await connection.purge({ rebuild: true });
      return result;
    },

    async close() {
      changes.stop();
      watchers.clear();
      connection.close();
    },
  };
  return store;
}
