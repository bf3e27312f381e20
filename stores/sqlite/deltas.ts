import type { DeltaStore, StoredText } from '../../protocol/store.ts';
import { escapeText, type Row } from '../rows.ts';
import type { Connection } from './database/connection.ts';

/** How long a run keeps its row after its last follower has left, in ms. */
const FORGET_MS = 60_000;

/** The texts of turns in progress, in the table `deltas`. Reads come first: most calls then need no write. */
export class SqliteDeltas implements DeltaStore {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async follow(
    runId: string,
    { now, until }: { now: number; until: number },
  ): Promise<StoredText | undefined> {
    const key = escapeText(runId);
    const row = await this.#read(key);
    if (Number(row?.followed_until ?? 0) < (now + until) / 2) {
      await this.#connection.write(sql => {
        sql.forgetDeltas.run(now - FORGET_MS);
        sql.followDeltas.run(until, key);
      });
    }
    return typeof row?.json === 'string' ? { seq: Number(row.seq), json: row.json } : undefined;
  }

  async save(runId: string, { seq, json }: StoredText, now: number): Promise<boolean> {
    const key = escapeText(runId);
    const row = await this.#read(key);
    if (Number(row?.followed_until ?? 0) <= now) return false;
    return await this.#connection.write(sql => Number(sql.saveDeltas.run(seq, json, key, now).changes) === 1);
  }

  async clear(runId: string): Promise<void> {
    const key = escapeText(runId);
    if (typeof (await this.#read(key))?.json !== 'string') return;
    await this.#connection.write(sql => void sql.clearDeltas.run(key));
  }

  async #read(key: string): Promise<Row | undefined> {
    return await this.#connection.query(sql => sql.deltas.get(key));
  }
}
