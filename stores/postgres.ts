import { randomUUID } from 'node:crypto';
import type { JournalEntry, RunEvent, RunStarted } from '../protocol/event.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { StoreFeed } from '../protocol/listing/feed.ts';
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
import { decodeJson, lostEntries } from './journal-text.ts';
import { recordClaim, refuseClaim } from './lease.ts';
import { readListFilter } from './list-query.ts';
import { planDeletion } from './plan-deletion.ts';
import { Appends } from './postgres/appends.ts';
import { readBytes, writeBlob } from './postgres/blobs.ts';
import { Database, type PostgresPool } from './postgres/database.ts';
import { PostgresDeltas } from './postgres/deltas.ts';
import { PostgresFeed } from './postgres/feed.ts';
import { insertAdopted, insertRun } from './postgres/insert-run.ts';
import { decodeEntries, readTexts } from './postgres/journal.ts';
import { findRuns, recordOf } from './postgres/list-runs.ts';
import { Listener, notifyWork, topicOf } from './postgres/listener.ts';
import { locateRun, type Place } from './postgres/locate-run.ts';
import { dropRuns, readKinship } from './postgres/remove-run.ts';
import { rewriteRun } from './postgres/rewrite-run.ts';
import { quoteSchema } from './postgres/schema.ts';
import { readSnapshot, saveSnapshotAs } from './postgres/snapshots.ts';
import { countRuns, takeRuns } from './postgres/take-work.ts';
import { planPruning, pruneRuns } from './prune.ts';
import { redactIn } from './redact-run.ts';
import { escapeText, type Transaction, toLease, toRecord, toRecords } from './rows.ts';
import { assertNotReopened, countByStatus, existingRun, followChain, isOpen } from './run-record.ts';
import { Watchers } from './work/watchers.ts';

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
};

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
  const { schema = 'agentchart', now = Date.now, listen, migrates = true, patienceMs } = options;
  const quoted = quoteSchema(schema);
  return new PostgresStore(new Database(target, quoted, { listen, migrates, patienceMs }), quoted, now);
}

const NO_REST: JournalRest = { events: [], status: 'running' };

/**
 * 1. An append is one statement: it locks the run's record where `seq` and `epoch` are as expected, so the lock is the
 *    fence. Operations of several statements run in one transaction that locks the records first.
 * 2. Entries `runs.base` + 1 to `runs.seq` exist, which readers check.
 * 3. Callers see leases on their own clock; across machines, only the remaining time is compared.
 */
class PostgresStore implements Store {
  readonly #database: Database;
  readonly #schema: string;
  readonly #now: () => number;
  readonly #watchers = new Watchers();
  readonly #listener: Listener;
  readonly #appends: Appends;
  readonly deltas: DeltaStore;
  readonly feed: StoreFeed;

  constructor(database: Database, schema: string, now: () => number) {
    this.#database = database;
    this.#schema = schema;
    this.#now = now;
    this.#appends = new Appends(database, schema, now);
    this.#listener = new Listener(database, schema, this.#watchers);
    this.deltas = new PostgresDeltas(this.#query, schema);
    this.feed = new PostgresFeed(database, schema, now);
  }

  async create(
    event: RunStarted,
    claim?: ClaimRequest,
    { events: rest, status, progress, wakeAt, beside = [] }: JournalRest = NO_REST,
  ): Promise<{ epoch: number; seq: number }> {
    const events: RunEvent[] = [event, ...rest];
    const epoch = claim === undefined ? 0 : 1;
    if (claim !== undefined) events.push(recordClaim(claim, epoch, undefined));
    const commit = randomUUID();
    const wakeInMs = this.#appends.untilOf(wakeAt);
    const insert = insertRun(this.#schema, { event, events, status, progress, claim, commit, wakeInMs });
    const find = () => this.#appends.findCommit(escapeText(event.runId), events.length, commit);
    const made = await (beside.length === 0
      ? this.#database.queryOnce(...insert, find)
      : this.#appends.changeWith(insert, beside));
    if (made.length === 0) throw existingRun(event.runId);
    return { epoch, seq: events.length };
  }

  async adopt(run: AdoptedRun): Promise<void> {
    const { runId, seq, state } = run;
    const inserted = insertAdopted(this.#schema, run, this.#appends.untilOf(run.wakeAt));
    const made = await this.#database.queryOnce(...inserted, async () => {
      const snapshot = await this.loadSnapshot(runId);
      return snapshot?.seq === seq && JSON.stringify(snapshot.state) === JSON.stringify(state) ? [{}] : [];
    });
    if (made.length === 0) throw existingRun(runId);
  }

  async append(
    runId: string,
    guard: AppendGuard,
    events: readonly RunEvent[],
    standing: Standing,
  ): Promise<AppendResult> {
    const { after } = guard;
    const epoch = 'epoch' in guard ? guard.epoch : null;
    const moved =
      events.length === 0
        ? await this.#appends.setStanding(runId, { after, epoch }, standing)
        : await this.#appends.write(runId, { after, epoch }, events, standing);
    if (moved) return { type: 'appended', seq: after + events.length };
    const place = await this.#locate(runId);
    if (epoch !== null && epoch !== place.epoch) return { type: 'superseded' };
    if (after > place.seq) throw lostEntries(runId, place.seq, after);
    if (after === place.seq) assertNotReopened(runId, place.status, events, standing);
    return { type: 'conflict' };
  }

  async read(runId: string, after = 0, page?: Page): Promise<JournalEntry[]> {
    return decodeEntries(runId, await this.#readTexts(runId, Math.max(0, after), page));
  }

  async readJson(runId: string, limit?: number): Promise<{ seq: number; event: JsonValue }[]> {
    const page = limit === undefined ? undefined : { entries: limit, chars: Number.POSITIVE_INFINITY };
    const texts = await this.#readTexts(runId, 0, page);
    return texts.map(({ seq, text }) => decodeJson(runId, seq, text));
  }

  async claim(runId: string, request: ClaimRequest): Promise<ClaimResult> {
    for (;;) {
      const { seq, now, row, ...place } = await this.#locate(runId);
      if (request.unlessEnded === true && !isOpen(place)) return { type: 'ended' };
      const lease = toLease(row);
      const refusal = refuseClaim(lease, { ...request, now });
      if (refusal !== undefined) return { ...refusal, until: refusal.until - now + request.now };
      const epoch = place.epoch + 1;
      const event = recordClaim(request, epoch, lease);
      const claimed = { request, epoch, from: row.lease_until };
      if (await this.#appends.write(runId, { after: seq, epoch: place.epoch }, [event], {}, claimed))
        return { type: 'claimed', epoch, seq: seq + 1 };
    }
  }

  async renew(leases: readonly HeldLease[], { leaseMs }: LeaseTime): Promise<HeldLease[]> {
    const s = this.#schema;
    const renewed = await this.#database.query(
      `UPDATE ${s}.runs r SET lease_until = ${s}.now_ms() + $3::float8
       FROM (SELECT o.run FROM unnest($1::text[], $2::int8[]) AS held (run_id, epoch)
         JOIN ${s}.runs o USING (run_id, epoch) WHERE o.owner IS NOT NULL ORDER BY o.run FOR UPDATE OF o) locked
       WHERE r.run = locked.run RETURNING r.run_id, r.epoch::float8 AS epoch`,
      ...[leases.map(({ runId }) => escapeText(runId)), leases.map(({ epoch }) => epoch), leaseMs],
    );
    const kept = new Map(renewed.map(row => [row.run_id, row.epoch]));
    return leases.filter(({ runId, epoch }) => kept.get(escapeText(runId)) !== epoch);
  }

  async release(runId: string, epoch: number, wakeAt?: number): Promise<void> {
    const s = this.#schema;
    const released = await this.#database.query(
      `UPDATE ${s}.runs SET owner = NULL, lease_until = NULL, wake_at = LEAST(wake_at, ${s}.now_ms() + $3::float8)
       WHERE run_id = $1 AND epoch = $2
       RETURNING CASE WHEN status = 'running' OR wake_at <= ${s}.now_ms() THEN ${notifyWork(s)} END AS told`,
      ...[escapeText(runId), epoch, this.#appends.untilOf(wakeAt) ?? null],
    );
    if (released.length === 0) await this.#locate(runId);
  }

  watch(runId: string, onChange: () => void): () => void {
    this.#listener.start();
    return this.#watchers.watch(topicOf(runId), onChange);
  }

  async takeWork(request: WorkRequest): Promise<RunRecord[]> {
    return await takeRuns(this.#query, this.#schema, request, this.#now());
  }

  async countWork(request: WorkRequest): Promise<number> {
    return await countRuns(this.#query, this.#schema, request);
  }

  watchWork(onWork: () => void): () => void {
    this.#listener.start();
    return this.#watchers.watchWork(onWork);
  }

  async saveSnapshot(runId: string, { seq, state }: StoredSnapshot): Promise<void> {
    const text = JSON.stringify(state);
    const key = escapeText(runId);
    await saveSnapshotAs(this.#query, this.#schema, { key, seq, text });
    await this.#locate(runId);
  }

  async loadSnapshot(runId: string): Promise<StoredSnapshot | undefined> {
    return await readSnapshot(this.#query, this.#schema, runId);
  }

  async get(runId: string): Promise<RunRecord | undefined> {
    const [row] = await this.#database.query(
      `SELECT ${recordOf(this.#schema, '$2')} FROM ${this.#schema}.runs r WHERE r.run_id = $1`,
      ...[escapeText(runId), this.#now()],
    );
    return row && toRecord(row);
  }

  async list(filter: ListFilter = {}): Promise<RunList> {
    const query = readListFilter(filter);
    const found = await findRuns(this.#query, this.#schema, query, this.#now());
    const rows = found.slice(0, query.limit);
    const runs = toRecords(rows, filter);
    const last = rows.length < found.length ? rows.at(-1) : undefined;
    if (last === undefined) return { runs };
    const place = { createdAt: Number(last.created_at), runId: String(last.run_id) };
    return { runs, next: query.cursorAt(place) };
  }

  async count(): Promise<Record<RunStatus, number>> {
    const s = this.#schema;
    return countByStatus(
      await this.#query(`SELECT status, count(*) AS count FROM ${s}.runs GROUP BY status`),
    );
  }

  async putBlob(runId: string, digest: string, text: string): Promise<void> {
    const { run } = await this.#locate(runId);
    await writeBlob(this.#query, this.#schema, { run, digest, text });
  }

  async readBlob(
    runId: string,
    digest: string,
    offset: number,
    length: number,
  ): Promise<Uint8Array | undefined> {
    return await readBytes(this.#query, this.#schema, { runId, digest, offset, length });
  }

  async chain(runId: string): Promise<RunRecord[]> {
    const s = this.#schema;
    const rows = await this.#database.query(
      `WITH RECURSIVE up AS (SELECT * FROM ${s}.runs WHERE run_id = $1
         UNION SELECT o.* FROM ${s}.runs o JOIN up ON o.run_id = up.continues)
       SELECT ${recordOf(s, '$2')} FROM up r`,
      ...[escapeText(runId), this.#now()],
    );
    const found = new Map(rows.map(row => [toRecord(row).runId, toRecord(row)]));
    return followChain(runId, id => found.get(id));
  }

  async delete(runId: string, options: DeleteOptions = {}): Promise<string[]> {
    const now = options.now ?? this.#now();
    return await this.#database.transact(async query => {
      const doomed = planDeletion(await readKinship(query, this.#schema, [runId], now), runId, {
        ...options,
        now,
      });
      await dropRuns(query, this.#schema, doomed);
      return doomed;
    });
  }

  async prune(options: PruneOptions): Promise<string[]> {
    return await pruneRuns(this, options, (runIds, gone) =>
      this.#database.transact(async query => {
        const now = options.now ?? this.#now();
        const kinship = await readKinship(query, this.#schema, runIds, now);
        const doomed = planPruning(kinship, runIds, gone, { ...options, now });
        if (options.dryRun !== true) await dropRuns(query, this.#schema, doomed);
        return doomed;
      }),
    );
  }

  async redact(runId: string, options: RedactOptions): Promise<Redacted> {
    return await redactIn(this, runId, options);
  }

  async rewrite(runId: string, redaction: Redaction): Promise<Exclude<AppendResult, { type: 'superseded' }>> {
    return await this.#database.transact(query => rewriteRun(query, this.#schema, runId, redaction));
  }

  async close(): Promise<void> {
    this.#listener.close();
    this.#watchers.clear();
    await this.#database.close();
  }

  readonly #query: Transaction = (text, ...values) => this.#database.query(text, ...values);

  async #readTexts(runId: string, after: number, page: Page | undefined) {
    return await readTexts(this.#query, this.#schema, { runId, key: escapeText(runId), after, page });
  }

  readonly #locate = (runId: string): Promise<Place> => locateRun(this.#query, this.#schema, runId);
}
