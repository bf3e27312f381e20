import { randomUUID } from 'node:crypto';
import { EngineError } from '../protocol/error.ts';
import type { JournalEntry, RunEvent, RunStarted } from '../protocol/event.ts';
import type { JsonValue } from '../protocol/json.ts';
import { titleOf } from '../protocol/listing/label.ts';
import type {
  AdoptedRun,
  AppendGuard,
  AppendResult,
  ClaimRequest,
  ClaimResult,
  DeleteOptions,
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
  Standing,
  Store,
  StoredSnapshot,
} from '../protocol/store.ts';
import { sumOfEntry, sumOfPart, sumOfRecord, sumOfSnapshot } from './checksum.ts';
import { decodeJson, encodeEvent, lostEntries } from './journal-text.ts';
import { isHeld, recordClaim, refuseClaim } from './lease.ts';
import { foldText, readListFilter } from './list-query.ts';
import { planDeletion } from './plan-deletion.ts';
import { Database, type PostgresPool, type Transaction } from './postgres/database.ts';
import { decodeEntries, readTexts, rewriteRows } from './postgres/journal.ts';
import { findRuns, recordOf } from './postgres/list-runs.ts';
import { dropRuns, readKinship } from './postgres/remove-run.ts';
import { planPruning, pruneRuns } from './prune.ts';
import { redactIn } from './redact-run.ts';
import { escapeOptional, escapeText, type Row, toLease, toRecord } from './rows.ts';
import { drivenRun, existingRun, followChain, missingRun } from './run-record.ts';

export type PostgresOptions = {
  /** The schema with the tables: lower-case letters, digits and `_`. Default `agentchart`. */
  schema?: string;
  /** The clock of this process, in ms since the epoch. Default `Date.now`. */
  now?(): number;
};

/**
 * Returns a store in a PostgreSQL database (14 or later), which processes of several machines may share. `target` is a
 * connection string (`postgres://user:password@host/database`) or a `Pool` of the package `pg`, which the caller ends.
 * Needs `pg`. Tables are created on first use, and migrated if they are of an older release. A commit is durable before
 * its promise resolves, if the server's `synchronous_commit` is not off. The server's clock decides when leases end.
 * While the server cannot be reached, calls wait up to a minute for it. Damaged data is detected by checksums and
 * rejected, never returned.
 *
 * Deleted and redacted values leave the tables; the server's files have them until it vacuums, its log until it is
 * recycled, and backups for as long as they exist.
 *
 * @example
 * const agent = createAgent({ name, model, store: postgres('postgres://localhost/agents') });
 */
export function postgres(target: string | PostgresPool, options: PostgresOptions = {}): Store {
  const { schema = 'agentchart', now = Date.now } = options;
  if (!/^[a-z_][a-z0-9_]{0,39}$/.test(schema))
    throw new EngineError(
      'input-invalid',
      `Expected a schema of lower-case letters, digits and _, at most 40, got "${schema}".`,
    );
  return new PostgresStore(new Database(target, schema), schema, now);
}

const NO_REST: JournalRest = { events: [], status: 'running' };

/** The size of every part of a blob except the last. */
const PART_BYTES = 256 * 1024;

/** Where a run is: what a claim and a deletion decide on. `now` is the server's time. */
type Place = { run: number; seq: number; epoch: number; now: number; row: Row };

/**
 * 1. An append is one statement: it locks the run's record where `seq` and `epoch` are as expected, so the lock is the
 *    fence. What needs several statements runs in one transaction that locks the records first.
 * 2. Entries `runs.base` + 1 to `runs.seq` exist, which readers check.
 * 3. A lease that is shown to callers is on their clock; only what is left of it is compared across machines.
 */
class PostgresStore implements Store {
  readonly #database: Database;
  readonly #schema: string;
  readonly #now: () => number;

  constructor(database: Database, schema: string, now: () => number) {
    this.#database = database;
    this.#schema = schema;
    this.#now = now;
  }

  async create(
    event: RunStarted,
    claim?: ClaimRequest,
    { events: rest, status, progress }: JournalRest = NO_REST,
  ): Promise<{ epoch: number; seq: number }> {
    const { runId, at, continues, parent, forkOf, chart, agent, labels = {} } = event;
    const events: RunEvent[] = [event, ...rest];
    const epoch = claim === undefined ? 0 : 1;
    if (claim !== undefined) events.push(recordClaim(claim, epoch, undefined));
    const json = events.map(encodeEvent).join('\n');
    const s = this.#schema;
    const title = titleOf(event);
    const key = escapeText(runId);
    const record = {
      run_id: key,
      agent: escapeText(agent.name),
      created_at: at,
      base: 0,
      continues: escapeOptional(continues),
    };
    const prior = sumOfRecord(record);
    const sum = sumOfEntry(prior, json);
    const commit = randomUUID();
    const made = await this.#database.queryOnce(
      `WITH made AS (
         INSERT INTO ${s}.runs (run_id, agent, created_at, base, continues, agent_version, chart_version, chart_hash, title,
           search, labels, parent, parent_call, fork_of, fork_at, status, progress, updated_at, seq, last_sum, epoch,
           owner, lease_until)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
           ${s}.now_ms() + $23::float8)
         ON CONFLICT (run_id) DO NOTHING RETURNING run),
       copied AS (
         INSERT INTO ${s}.blobs (run, digest, start, sum, bytes)
         SELECT made.run, b.digest, b.start, b.sum, b.bytes FROM made, ${s}.runs o JOIN ${s}.blobs b ON b.run = o.run
         WHERE o.run_id = $14)
       INSERT INTO ${s}.appends (run, seq, count, chars, prior, sum, commit_id, json)
       SELECT run, $19, $19, $24, $25, $20, $26, $27 FROM made RETURNING run`,
      [
        ...Object.values(record),
        escapeOptional(agent.version),
        chart.version,
        escapeText(chart.hash),
        title,
        foldText(title),
        JSON.stringify(labels),
        escapeOptional(parent?.runId),
        escapeOptional(parent?.callId),
        escapeOptional(forkOf?.runId),
        forkOf?.at ?? null,
        status,
        progress === undefined ? null : JSON.stringify(progress),
        events.at(-1)?.at ?? at,
        events.length,
        sum,
        epoch,
        claim === undefined ? null : JSON.stringify(claim.owner),
        claim?.leaseMs ?? null,
        json.length,
        prior,
        commit,
        json,
      ],
      () => this.#findCommit(key, events.length, commit),
    );
    if (made.length === 0) throw existingRun(runId);
    return { epoch, seq: events.length };
  }

  async adopt({ runId, agent, title, labels, parent, status, progress, createdAt, seq, state }: AdoptedRun) {
    const s = this.#schema;
    const key = escapeText(runId);
    const record = {
      run_id: key,
      agent: escapeText(agent),
      created_at: createdAt,
      base: seq,
      continues: null,
    };
    const text = JSON.stringify(state);
    const sum = sumOfSnapshot(key, seq, text);
    const find = async () => {
      const snapshot = await this.loadSnapshot(runId);
      return snapshot?.seq === seq && JSON.stringify(snapshot.state) === text ? [{}] : [];
    };
    const made = await this.#database.queryOnce(
      `WITH made AS (
         INSERT INTO ${s}.runs (run_id, agent, created_at, base, continues, title, search, labels, parent, parent_call,
           status, progress, updated_at, seq, last_sum, epoch)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $3, $4, $13, 0)
         ON CONFLICT (run_id) DO NOTHING RETURNING run)
       INSERT INTO ${s}.snapshots (run, seq, sum, state) SELECT run, $4, $14, $15 FROM made RETURNING run`,
      [
        ...Object.values(record),
        title,
        foldText(title),
        JSON.stringify(labels),
        escapeOptional(parent?.runId),
        escapeOptional(parent?.callId),
        status,
        progress === undefined ? null : JSON.stringify(progress),
        sumOfRecord(record),
        sum,
        text,
      ],
      find,
    );
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
        ? await this.#setStanding(runId, after, epoch, standing)
        : await this.#write(runId, { after, epoch }, events, standing);
    if (moved) return { type: 'appended', seq: after + events.length };
    const place = await this.#locate(runId);
    if (epoch !== null && epoch !== place.epoch) return { type: 'superseded' };
    if (after > place.seq) throw lostEntries(runId, place.seq, after);
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
      const lease = toLease(row);
      const refusal = refuseClaim(lease, { ...request, now });
      if (refusal !== undefined) return { ...refusal, until: refusal.until - now + request.now };
      const epoch = place.epoch + 1;
      const event = recordClaim(request, epoch, lease);
      const claimed = { request, epoch, from: row.lease_until };
      if (await this.#write(runId, { after: seq, epoch: place.epoch }, [event], {}, claimed))
        return { type: 'claimed', epoch, seq: seq + 1 };
    }
  }

  async renew(runId: string, epoch: number, { leaseMs }: LeaseTime): Promise<boolean> {
    const s = this.#schema;
    const renewed = await this.#database.query(
      `UPDATE ${s}.runs SET lease_until = ${s}.now_ms() + $3::float8
       WHERE run_id = $1 AND epoch = $2 AND owner IS NOT NULL RETURNING 1`,
      ...[escapeText(runId), epoch, leaseMs],
    );
    if (renewed.length === 0) await this.#locate(runId);
    return renewed.length > 0;
  }

  async release(runId: string, epoch: number): Promise<void> {
    const released = await this.#database.query(
      `UPDATE ${this.#schema}.runs SET owner = NULL, lease_until = NULL WHERE run_id = $1 AND epoch = $2 RETURNING 1`,
      ...[escapeText(runId), epoch],
    );
    if (released.length === 0) await this.#locate(runId);
  }

  async saveSnapshot(runId: string, { seq, state }: StoredSnapshot): Promise<void> {
    const text = JSON.stringify(state);
    const key = escapeText(runId);
    await saveSnapshotAs(this.#query, this.#schema, { key, seq, text });
    await this.#locate(runId);
  }

  async loadSnapshot(runId: string): Promise<StoredSnapshot | undefined> {
    const s = this.#schema;
    const key = escapeText(runId);
    const [row] = await this.#database.query(
      `SELECT n.seq, n.sum, n.state, r.base FROM ${s}.runs r JOIN ${s}.snapshots n USING (run) WHERE r.run_id = $1`,
      key,
    );
    if (row === undefined) return undefined;
    const [seq, text] = [Number(row.seq), String(row.state)];
    if (row.sum === sumOfSnapshot(key, seq, text)) return { seq, state: JSON.parse(text) };
    if (Number(row.base) === 0) return undefined;
    throw new EngineError(
      'journal-damaged',
      `The journal of run "${runId}" cannot be read: its first entries exist only in a snapshot, which does not match its checksum. Restore the store from a backup.`,
      { runId, seq: Number(row.base) },
    );
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
    const runs = rows.flatMap(row => readRecord(row, filter.onDamaged));
    const last = rows.length < found.length ? rows.at(-1) : undefined;
    if (last === undefined) return { runs };
    return {
      runs,
      next: query.cursorAt({ createdAt: Number(last.created_at), runId: String(last.run_id) }),
    };
  }

  async putBlob(runId: string, digest: string, text: string): Promise<void> {
    const { run } = await this.#locate(runId);
    const bytes = Buffer.from(text);
    for (let start = 0; start < bytes.length; start += PART_BYTES) {
      const part = bytes.subarray(start, start + PART_BYTES);
      await this.#database.query(
        `INSERT INTO ${this.#schema}.blobs (run, digest, start, sum, bytes) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT DO NOTHING`,
        ...[run, digest, start, sumOfPart(digest, start, part), part],
      );
    }
  }

  async readBlob(
    runId: string,
    digest: string,
    offset: number,
    length: number,
  ): Promise<Uint8Array | undefined> {
    const first = offset - (offset % PART_BYTES);
    const s = this.#schema;
    const rows = await this.#database.query(
      `SELECT b.start, b.sum, b.bytes FROM ${s}.runs r JOIN ${s}.blobs b USING (run)
       WHERE r.run_id = $1 AND b.digest = $2 AND (b.start = 0 OR b.start >= $3 AND b.start < $4) ORDER BY b.start`,
      ...[escapeText(runId), digest, first, offset + length],
    );
    if (rows.length === 0) return undefined;
    const parts = rows.map(({ start, sum, bytes }) => {
      if (bytes instanceof Uint8Array && sum === sumOfPart(digest, Number(start), bytes))
        return { start: Number(start), bytes };
      throw new EngineError(
        'store-damaged',
        `The result ${digest} of run "${runId}" does not match its checksum. Restore the store from a backup.`,
        { runId, digest },
      );
    });
    const wanted = parts.filter(({ start }) => start >= first).map(({ bytes }) => bytes);
    return new Uint8Array(Buffer.concat(wanted).subarray(offset - first, offset - first + length));
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

  async rewrite(
    runId: string,
    { after, entries, blobs, state, progress, event, now, isDead }: Redaction,
  ): Promise<Exclude<AppendResult, { type: 'superseded' }>> {
    const s = this.#schema;
    const key = escapeText(runId);
    const texts = new Map(
      entries.map(entry => [entry.seq, { text: encodeEvent(entry.event), stateHash: entry.stateHash }]),
    );
    const first = entries.find(({ seq }) => seq === 1)?.event;
    const written = event && encodeEvent(event);
    return await this.#database.transact(async query => {
      const [row] = await query(`SELECT ${PLACE(s)} FROM ${s}.runs WHERE run_id = $1 FOR UPDATE`, key);
      if (row === undefined) throw missingRun(runId);
      const place = placeOf(row);
      const lease = toLease(row);
      if (isHeld(lease, { now: place.now, isDead }))
        throw drivenRun(runId, { ...lease, until: lease.until - place.now + now }, 'redacted');
      if (after !== place.seq) return { type: 'conflict' };
      const { run } = place;
      const sum = texts.size === 0 ? undefined : await rewriteRows(query, s, run, texts);
      if (sum !== undefined) await query(`UPDATE ${s}.runs SET last_sum = $2 WHERE run = $1`, run, sum);
      await query(`DELETE FROM ${s}.blobs WHERE run = $1 AND digest = ANY($2)`, run, [...blobs]);
      await query(`UPDATE ${s}.runs SET progress = $2 WHERE run = $1`, run, JSON.stringify(progress));
      if (first?.type === 'run.started') {
        const title = titleOf(first);
        await query(
          `UPDATE ${s}.runs SET title = $2, search = $3 WHERE run = $1`,
          run,
          title,
          foldText(title),
        );
      }
      if (event && written) {
        const change = { key, after, epoch: null, json: written, count: 1, at: event.at, standing: {} };
        await query(writeSql(s, ''), ...valuesOf(change, randomUUID()));
      }
      const seq = after + (event === undefined ? 0 : 1);
      await query(`DELETE FROM ${s}.snapshots WHERE run = $1`, run);
      await saveSnapshotAs(query, s, { key, seq, text: JSON.stringify(state) });
      return { type: 'appended', seq };
    });
  }

  async close(): Promise<void> {
    await this.#database.close();
  }

  readonly #query: Transaction = (text, ...values) => this.#database.query(text, ...values);

  async #readTexts(runId: string, after: number, page: Page | undefined) {
    return await readTexts(this.#query, this.#schema, { runId, key: escapeText(runId), after, page });
  }

  async #locate(runId: string): Promise<Place> {
    const s = this.#schema;
    const [row] = await this.#database.query(
      `SELECT ${PLACE(s)} FROM ${s}.runs WHERE run_id = $1`,
      escapeText(runId),
    );
    if (row === undefined) throw missingRun(runId);
    return placeOf(row);
  }

  async #setStanding(
    runId: string,
    after: number,
    epoch: number | null,
    { status, progress }: Standing,
  ): Promise<boolean> {
    const set = await this.#database.query(
      `UPDATE ${this.#schema}.runs SET status = $4, progress = COALESCE($5, progress)
       WHERE run_id = $1 AND seq = $2 AND ($3::int8 IS NULL OR epoch = $3) RETURNING 1`,
      ...[escapeText(runId), after, epoch, status, progress === undefined ? null : JSON.stringify(progress)],
    );
    return set.length > 0;
  }

  /** Appends events, and takes the lease with `claimed`. Resolves to false if the run is not as expected. */
  async #write(
    runId: string,
    { after, epoch }: { after: number; epoch: number | null },
    events: readonly RunEvent[],
    standing: Partial<Standing>,
    claimed?: { request: ClaimRequest; epoch: number; from: unknown },
  ): Promise<boolean> {
    const key = escapeText(runId);
    const json = events.map(encodeEvent).join('\n');
    const at = events.at(-1)?.at ?? 0;
    const change = { key, after, epoch, json, count: events.length, at, standing };
    const commit = randomUUID();
    const s = this.#schema;
    const find = () => this.#findCommit(key, after + events.length, commit);
    const values = valuesOf(change, commit);
    if (claimed === undefined)
      return (await this.#database.queryOnce(writeSql(s, ''), values, find)).length > 0;
    const { request, from } = claimed;
    const lease = `, epoch = $12, owner = $13, lease_until = ${s}.now_ms() + $14::float8`;
    const isUnchanged = 'AND lease_until IS NOT DISTINCT FROM $15::float8';
    const leaseValues = [claimed.epoch, JSON.stringify(request.owner), request.leaseMs, from];
    const sql = writeSql(s, lease, isUnchanged);
    return (await this.#database.queryOnce(sql, [...values, ...leaseValues], find)).length > 0;
  }

  /** Returns the row of an append that was committed. */
  async #findCommit(key: string, seq: number, commit: string): Promise<Row[]> {
    const s = this.#schema;
    return await this.#database.query(
      `SELECT a.seq FROM ${s}.runs r JOIN ${s}.appends a USING (run)
       WHERE r.run_id = $1 AND a.seq = $2 AND a.commit_id = $3`,
      ...[key, seq, commit],
    );
  }
}

type Change = {
  key: string;
  after: number;
  epoch: number | null;
  json: string;
  count: number;
  at: number;
  standing: Partial<Standing>;
};

const PLACE = (s: string) => `run_id, run, seq, epoch, owner, lease_until, ${s}.now_ms() AS now`;

function placeOf(row: Row): Place {
  const [run = 0, seq = 0, epoch = 0, now = 0] = [row.run, row.seq, row.epoch, row.now].map(Number);
  return { run, seq, epoch, now, row };
}

/** The statement of an append. `lease` sets further columns; `condition` must hold too. */
function writeSql(s: string, lease: string, condition = ''): string {
  return `WITH old AS (
      SELECT run, last_sum FROM ${s}.runs
      WHERE run_id = $1 AND seq = $2 AND ($3::int8 IS NULL OR epoch = $3) ${condition} FOR UPDATE),
    summed AS (
      SELECT run, last_sum AS prior,
        left(encode(sha256(convert_to(last_sum || $4::text || COALESCE($5::text, ''), 'UTF8')), 'hex'), 16) AS sum
      FROM old),
    moved AS (
      UPDATE ${s}.runs r SET seq = $2::int8 + $6::int4, last_sum = summed.sum, updated_at = $7,
        status = COALESCE($8, status), progress = COALESCE($9, progress)${lease}
      FROM summed WHERE r.run = summed.run)
    INSERT INTO ${s}.appends (run, seq, count, chars, prior, sum, state_hash, commit_id, json)
    SELECT run, $2::int8 + $6::int4, $6, $10, prior, sum, $5, $11, $4 FROM summed RETURNING seq`;
}

function valuesOf({ key, after, epoch, json, count, at, standing }: Change, commit: string): unknown[] {
  const { status = null, progress, stateHash = null } = standing;
  const progressText = progress === undefined ? null : JSON.stringify(progress);
  return [key, after, epoch, json, stateHash, count, at, status, progressText, json.length, commit];
}

async function saveSnapshotAs(
  query: Transaction,
  s: string,
  { key, seq, text }: { key: string; seq: number; text: string },
): Promise<void> {
  await query(
    `INSERT INTO ${s}.snapshots AS old (run, seq, sum, state) SELECT run, $2, $3, $4 FROM ${s}.runs WHERE run_id = $1
     ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, sum = excluded.sum, state = excluded.state
     WHERE excluded.seq >= old.seq`,
    ...[key, seq, sumOfSnapshot(key, seq, text), text],
  );
}

function readRecord(row: Row, onDamaged: ListFilter['onDamaged']): RunRecord[] {
  try {
    return [toRecord(row)];
  } catch (error) {
    if (!(error instanceof EngineError) || onDamaged === undefined) throw error;
    onDamaged(error);
    return [];
  }
}
