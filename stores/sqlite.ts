/*
 * Stores: implementations of the `Store` interface, in SQLite (this file and `sqlite/`) and in memory (`memory.ts`),
 * and the conformance checks that every store must pass (`conformance.ts`).
 */
import { resolve } from 'node:path';
import type { JournalEntry, RunEvent, RunStarted } from '../protocol/event.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { StoreFeed } from '../protocol/listing/feed.ts';
import { titleOf } from '../protocol/listing/label.ts';
import type {
  AdoptedRun,
  AppendGuard,
  AppendResult,
  ClaimRequest,
  ClaimResult,
  DeleteOptions,
  DeltaStore,
  HeldLease,
  JournalRest,
  LeaseTime,
  ListFilter,
  Page,
  PruneOptions,
  Redacted,
  Redaction,
  RedactOptions,
  RunList,
  RunRecord,
  RunStatus,
  Standing,
  Store,
  StoredSnapshot,
  WorkRequest,
} from '../protocol/store.ts';
import { sumOfSnapshot } from './checksum.ts';
import { encodeEvent, lostEntries } from './journal-text.ts';
import { isHeld, recordClaim, refuseClaim } from './lease.ts';
import { readListFilter } from './list-query.ts';
import { planPruning, pruneRuns } from './prune.ts';
import { redactIn } from './redact-run.ts';
import { escapeText, toRecords } from './rows.ts';
import { assertNotReopened, countByStatus, drivenRun, followChain, isOpen } from './run-record.ts';
import { readBytes, shareBlobs, writeBlob } from './sqlite/blobs.ts';
import { Connection } from './sqlite/database/connection.ts';
import { SqliteDeltas } from './sqlite/deltas.ts';
import { SqliteFeed } from './sqlite/feed.ts';
import { insertRun, writeTitle } from './sqlite/insert-run.ts';
import { changeStanding, writeEvents, writeLease, writeWakeUps } from './sqlite/journal.ts';
import { findRuns } from './sqlite/list-runs.ts';
import { describeRun, findLease, locateRun } from './sqlite/locate-run.ts';
import { readEntries, readJsonEntries, readSnapshot } from './sqlite/read-journal.ts';
import { dropBlob, makeKinship, prunePage, removeRuns } from './sqlite/remove-run.ts';
import { rewriteEntries } from './sqlite/rewrite-journal.ts';
import { chooseWork, findCandidates, reserveRuns } from './sqlite/take-work.ts';
import { ChangeWatcher } from './sqlite/watch-changes.ts';
import { Watchers } from './work/watchers.ts';

export type SqliteOptions = {
  /**
   * How long a call waits for another process's lock before it rejects with `store-locked`, in ms. Default 5000. The
   * wait does not block this process.
   */
  busyTimeoutMs?: number;
};

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
  const path = file === ':memory:' ? file : resolve(file);
  return new SqliteStore(new Connection(path, options.busyTimeoutMs ?? 5000));
}

const NO_REST: JournalRest = { events: [], status: 'running' };

/**
 * 1. Every method is atomic, or reads only data that never changes.
 * 2. Entries `runs.base` + 1 to `runs.seq` exist, which readers check; `base` is 0 except for adopted runs.
 * 3. Only `rewrite` replaces an entry's JSON; readers verify its checksum (`checksum.ts`).
 */
class SqliteStore implements Store {
  readonly feed: StoreFeed;
  readonly #connection: Connection;
  readonly deltas: DeltaStore;
  readonly #watchers = new Watchers();
  readonly #changes: ChangeWatcher;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#changes = new ChangeWatcher(connection, this.#watchers);
    this.deltas = new SqliteDeltas(connection);
    this.feed = new SqliteFeed(connection);
  }

  async create(
    event: RunStarted,
    claim?: ClaimRequest,
    { events: rest, status, progress, wakeAt, beside = [] }: JournalRest = NO_REST,
  ): Promise<{ epoch: number; seq: number }> {
    const events: RunEvent[] = [event, ...rest];
    const epoch = claim === undefined ? 0 : 1;
    if (claim !== undefined) events.push(recordClaim(claim, epoch, undefined));
    const texts = events.map(encodeEvent);
    const created = await this.#connection.write(sql => {
      for (const change of beside) changeStanding(sql, change, event.at);
      const position = insertRun(sql, event.runId, {
        agent: event.agent.name,
        title: titleOf(event),
        labels: event.labels ?? {},
        agentVersion: event.agent.version,
        chart: event.chart,
        parent: event.parent,
        forkOf: event.forkOf,
        continues: event.continues,
        status,
        progress,
        wakeAt,
        createdAt: event.at,
        base: 0,
      });
      if (event.forkOf !== undefined) shareBlobs(sql, position.run, { from: event.forkOf.runId });
      const { run, seq } = writeEvents(sql, event.runId, position, events, texts);
      if (claim !== undefined) writeLease(sql, run, claim, epoch);
      return { epoch, seq };
    });
    if (claim === undefined) this.#watchers.notifyWork();
    return created;
  }

  async adopt({ runId, seq, state, ...adopted }: AdoptedRun): Promise<void> {
    const text = JSON.stringify(state);
    await this.#connection.write(sql => {
      const { run } = insertRun(sql, runId, { ...adopted, base: seq });
      sql.saveSnapshot.run(run, seq, sumOfSnapshot(escapeText(runId), seq, text), text);
    });
  }

  async append(
    runId: string,
    guard: AppendGuard,
    events: readonly RunEvent[],
    standing: Standing,
  ): Promise<AppendResult> {
    const texts = events.map(encodeEvent);
    const result = await this.#connection.write<AppendResult>(sql => {
      const position = locateRun(sql, runId);
      const { seq, epoch } = position;
      if ('epoch' in guard && guard.epoch !== epoch) return { type: 'superseded' };
      if (guard.after > seq) throw lostEntries(runId, seq, guard.after);
      if (guard.after !== seq) return { type: 'conflict' };
      assertNotReopened(runId, position.status, events, standing);
      const end = writeEvents(sql, runId, position, events, texts, standing);
      writeWakeUps(sql, position, standing, events.at(-1)?.at ?? 0);
      return { type: 'appended', seq: end.seq };
    });
    if ('input' in guard) this.#watchers.notifyRun(runId);
    if ('input' in guard || standing.wakes !== undefined) this.#watchers.notifyWork();
    return result;
  }

  async read(runId: string, after = 0, page?: Page): Promise<JournalEntry[]> {
    return this.#connection.query(sql => readEntries(sql, runId, Math.max(0, after), page));
  }

  async readJson(runId: string, limit?: number): Promise<{ seq: number; event: JsonValue }[]> {
    return this.#connection.query(sql => readJsonEntries(sql, runId, limit));
  }

  async claim(runId: string, request: ClaimRequest): Promise<ClaimResult> {
    const result = await this.#connection.write<ClaimResult>(sql => {
      const position = locateRun(sql, runId);
      if (request.unlessEnded === true && !isOpen(position)) return { type: 'ended' };
      const lease = findLease(sql, position.run);
      const refusal = refuseClaim(lease, request);
      if (refusal !== undefined) return refusal;
      const epoch = position.epoch + 1;
      const event = recordClaim(request, epoch, lease);
      const { run, seq } = writeEvents(sql, runId, position, [event], [encodeEvent(event)]);
      writeLease(sql, run, request, epoch);
      return { type: 'claimed', epoch, seq };
    });
    this.#watchers.notifyRun(runId);
    return result;
  }

  async renew(leases: readonly HeldLease[], { now, leaseMs }: LeaseTime): Promise<HeldLease[]> {
    return this.#connection.write(sql =>
      leases.filter(
        ({ runId, epoch }) => Number(sql.renew.run(now + leaseMs, escapeText(runId), epoch).changes) === 0,
      ),
    );
  }

  async release(runId: string, epoch: number, wakeAt?: number): Promise<void> {
    await this.#connection.write(sql => {
      sql.release.run(wakeAt ?? null, wakeAt ?? null, locateRun(sql, runId).run, epoch);
    });
    this.#watchers.notifyWork();
  }

  watch(runId: string, onChange: () => void): () => void {
    const end = this.#watchers.watch(runId, onChange);
    this.#changes.start();
    return end;
  }

  async takeWork(request: WorkRequest): Promise<RunRecord[]> {
    if (request.limit <= 0) return [];
    const candidates = await this.#connection.query(sql => findCandidates(sql, request));
    if (candidates.length === 0) return [];
    return await this.#connection.write(sql => reserveRuns(sql, candidates, request));
  }

  async countWork(request: WorkRequest): Promise<number> {
    return await this.#connection.read(sql => chooseWork(sql, findCandidates(sql, request), request).length);
  }

  watchWork(onWork: () => void): () => void {
    const end = this.#watchers.watchWork(onWork);
    this.#changes.start();
    return end;
  }

  async saveSnapshot(runId: string, { seq, state }: StoredSnapshot): Promise<void> {
    const text = JSON.stringify(state);
    const sum = sumOfSnapshot(escapeText(runId), seq, text);
    await this.#connection.write(sql => {
      sql.saveSnapshot.run(locateRun(sql, runId).run, seq, sum, text);
    });
  }

  async loadSnapshot(runId: string): Promise<StoredSnapshot | undefined> {
    return this.#connection.query(sql => readSnapshot(sql, runId));
  }

  async get(runId: string): Promise<RunRecord | undefined> {
    return this.#connection.query(sql => describeRun(sql, runId));
  }

  async list(filter: ListFilter = {}): Promise<RunList> {
    const query = readListFilter(filter);
    const found = await this.#connection.query(sql => findRuns(sql, query));
    const rows = found.slice(0, query.limit);
    const runs = toRecords(rows, filter);
    const last = rows.length < found.length ? rows.at(-1) : undefined;
    if (last === undefined) return { runs };
    const next = query.cursorAt({ createdAt: Number(last.created_at), runId: String(last.run_id) });
    return { runs, next };
  }

  async putBlob(runId: string, digest: string, text: string): Promise<void> {
    await this.#connection.write(sql => writeBlob(sql, runId, digest, text));
  }

  async readBlob(
    runId: string,
    digest: string,
    offset: number,
    length: number,
  ): Promise<Uint8Array | undefined> {
    return this.#connection.query(sql => readBytes(sql, runId, digest, { offset, length }));
  }

  async count(): Promise<Record<RunStatus, number>> {
    return countByStatus(await this.#connection.query(sql => sql.countByStatus.all()));
  }

  async chain(runId: string): Promise<RunRecord[]> {
    return this.#connection.read(sql => followChain(runId, id => describeRun(sql, id)));
  }

  async delete(runId: string, options: DeleteOptions = {}): Promise<string[]> {
    const removed = await this.#connection.write(sql => removeRuns(sql, runId, options));
    await this.#connection.purge();
    return removed;
  }

  async prune(options: PruneOptions): Promise<string[]> {
    const pruned = await pruneRuns(this, options, (runIds, gone) => {
      if (options.dryRun !== true)
        return this.#connection.write(sql => prunePage(sql, runIds, gone, options));
      return this.#connection.read(sql => planPruning(makeKinship(sql), runIds, gone, options));
    });
    if (pruned.length > 0 && options.dryRun !== true) await this.#connection.purgeIfFree();
    return pruned;
  }

  async redact(runId: string, options: RedactOptions): Promise<Redacted> {
    return await redactIn(this, runId, options);
  }

  async rewrite(
    runId: string,
    { after, entries, blobs, state, progress, event, now, isDead }: Redaction,
  ): Promise<Exclude<AppendResult, { type: 'superseded' }>> {
    const texts = new Map(
      entries.map(({ seq, event, stateHash }) => [seq, { text: encodeEvent(event), stateHash }]),
    );
    const first = entries.find(({ seq }) => seq === 1)?.event;
    const events = event === undefined ? [] : [event];
    const eventTexts = events.map(encodeEvent);
    const stateText = JSON.stringify(state);
    const result = await this.#connection.write<Exclude<AppendResult, { type: 'superseded' }>>(sql => {
      const position = locateRun(sql, runId);
      const lease = findLease(sql, position.run);
      if (isHeld(lease, { now, isDead })) throw drivenRun(runId, lease, 'redacted');
      if (after !== position.seq) return { type: 'conflict' };
      const rewritten = rewriteEntries(sql, runId, position, texts);
      for (const digest of blobs) dropBlob(sql, position.run, digest);
      const { run, seq } = writeEvents(sql, runId, rewritten, events, eventTexts, { progress });
      if (first?.type === 'run.started') writeTitle(sql, run, titleOf(first));
      sql.dropSnapshot.run(run);
      sql.dropDeltas.run(run);
      sql.saveSnapshot.run(run, seq, sumOfSnapshot(escapeText(runId), seq, stateText), stateText);
      return { type: 'appended', seq };
    });
    if (result.type === 'appended') await this.#connection.purge({ rebuild: true });
    return result;
  }

  async close(): Promise<void> {
    this.#changes.stop();
    this.#watchers.clear();
    this.#connection.close();
  }
}
