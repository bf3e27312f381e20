import { resolve } from 'node:path';
import type { JournalEntry, RunEvent, RunStarted } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import type {
  AdoptedRun,
  AppendGuard,
  AppendResult,
  ClaimRequest,
  ClaimResult,
  JournalRest,
  RunRecord,
  RunStatus,
  Store,
  StoredSnapshot,
} from '../protocol/store.ts';
import { itemsOf } from '../protocol/store.ts';
import { decodeEntry, describeDamage, encodeEvent } from './journal-text.ts';
import { refuseClaim } from './lease.ts';
import { existingRun, followChain } from './run-record.ts';
import { Connection } from './sqlite/connection.ts';
import { describeRun, locateRun, readEntries, writeClaim, writeEvents } from './sqlite/journal.ts';
import { escapeText, toLease, toPlace, toRecord, toSnapshot } from './sqlite/rows.ts';

export type SqliteOptions = {
  /** How long to wait for another process's lock, in ms. Default 5000. This process stands still meanwhile. */
  busyTimeoutMs?: number;
};

/**
 * A store in one SQLite file that any number of processes of one machine may share. The file and its
 * folder are made when first used; a path that is not absolute is taken from the working directory of
 * this call. A commit is on the disk before its promise settles.
 */
export function sqlite(file = '.agentchart/runs.db', options: SqliteOptions = {}): Store {
  const path = file === ':memory:' ? file : resolve(file);
  return new SqliteStore(new Connection(path, options.busyTimeoutMs ?? 5000));
}

const NO_REST: JournalRest = { events: [], status: 'running' };

/**
 * 1. A method is one transaction, or reads only what is never changed again.
 * 2. Entries `runs.base` + 1 to `runs.seq` exist, and a reader checks that they do; `base` is 0 but for
 *    runs that were adopted.
 * 3. An entry's JSON is written once and never again.
 */
class SqliteStore implements Store {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async create(
    event: RunStarted,
    claim?: ClaimRequest,
    { events: rest, status }: JournalRest = NO_REST,
  ): Promise<{ epoch: number; seq: number }> {
    const events = [event, ...rest];
    const texts = events.map(encodeEvent);
    const { runId, at, agent } = event;
    const continues = event.continues === undefined ? null : escapeText(event.continues);
    return this.#connection.transact('write', sql => {
      if (describeRun(sql, runId) !== undefined) throw existingRun(runId);
      sql.insertRun.run(escapeText(runId), escapeText(agent.name), status, at, at, 0, 0, continues);
      writeEvents(sql, runId, 0, events, texts);
      const begun = { epoch: 0, seq: events.length };
      return claim === undefined ? begun : writeClaim(sql, runId, claim, begun);
    });
  }

  async adopt({ runId, agent, status, createdAt, seq, state }: AdoptedRun): Promise<void> {
    const [key, text] = [escapeText(runId), JSON.stringify(state)];
    this.#connection.transact('write', sql => {
      if (describeRun(sql, runId) !== undefined) throw existingRun(runId);
      sql.insertRun.run(key, escapeText(agent), status, createdAt, createdAt, seq, seq, null);
      sql.saveSnapshot.run(key, seq, text);
    });
  }

  async append(
    runId: string,
    guard: AppendGuard,
    events: readonly RunEvent[],
    status: RunStatus,
  ): Promise<AppendResult> {
    const texts = events.map(encodeEvent);
    return this.#connection.transact<AppendResult>('write', sql => {
      const { seq, epoch } = locateRun(sql, runId);
      if ('epoch' in guard && guard.epoch !== epoch) return { type: 'superseded' };
      if (guard.after !== seq) return { type: 'conflict' };
      writeEvents(sql, runId, seq, events, texts);
      sql.setStatus.run(status, escapeText(runId), status);
      return { type: 'appended', seq: seq + events.length };
    });
  }

  async read(runId: string, after = 0): Promise<JournalEntry[]> {
    return this.#connection.query(sql => readEntries(sql, runId, Math.max(0, after)));
  }

  async claim(runId: string, request: ClaimRequest): Promise<ClaimResult> {
    return this.#connection.transact<ClaimResult>('write', sql => {
      const { row, ...position } = locateRun(sql, runId);
      const refusal = refuseClaim(toLease(row), request);
      return refusal ?? { type: 'claimed', ...writeClaim(sql, runId, request, position) };
    });
  }

  async renew(runId: string, epoch: number, until: number): Promise<boolean> {
    return this.#connection.transact('write', sql => {
      locateRun(sql, runId);
      return Number(sql.renew.run(until, escapeText(runId), epoch).changes) === 1;
    });
  }

  async release(runId: string, epoch: number): Promise<void> {
    this.#connection.transact('write', sql => {
      locateRun(sql, runId);
      sql.release.run(escapeText(runId), epoch);
    });
  }

  async saveSnapshot(runId: string, snapshot: StoredSnapshot): Promise<void> {
    const state = JSON.stringify(snapshot.state);
    this.#connection.transact('write', sql => {
      locateRun(sql, runId);
      sql.saveSnapshot.run(escapeText(runId), snapshot.seq, state);
    });
  }

  async loadSnapshot(runId: string): Promise<StoredSnapshot | undefined> {
    return this.#connection.query(sql => toSnapshot(sql.snapshot.get(escapeText(runId))));
  }

  async get(runId: string): Promise<RunRecord | undefined> {
    return this.#connection.query(sql => describeRun(sql, runId));
  }

  async list({ status, limit }: { status?: RunStatus; limit?: number } = {}): Promise<RunRecord[]> {
    const rows = limit === undefined ? -1 : Math.max(0, limit);
    return this.#connection.query(sql =>
      (status === undefined ? sql.runs.all(rows) : sql.runsByStatus.all(status, rows)).map(toRecord),
    );
  }

  async findItem(itemId: string): Promise<{ runId: string; seq: number; item: Item } | undefined> {
    return this.#connection.query(sql => {
      const row = sql.item.get(escapeText(itemId));
      if (row === undefined) return undefined;
      const { runId, seq } = toPlace(row);
      if (row.json === null) throw describeDamage(runId, seq, 'is missing');
      const { event } = decodeEntry(runId, seq, String(row.json));
      const item = itemsOf(event).find(({ id }) => id === itemId);
      return item && { runId, seq, item };
    });
  }

  async chain(runId: string): Promise<RunRecord[]> {
    return this.#connection.transact('read', sql => followChain(runId, id => describeRun(sql, id)));
  }

  async close(): Promise<void> {
    this.#connection.close();
  }
}
