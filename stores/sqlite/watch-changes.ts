import { unescapeText } from '../sql/rows.ts';
import type { Watchers } from '../work/watchers.ts';
import type { Connection } from './database/connection.ts';

/** How often it looks for commits of other processes while anything is watched, in ms. */
const LOOK_MS = 50;

/**
 * Calls the watchers of a store when another process commits to its file. SQLite has no notifications, but a number
 * that changes with each commit of another connection, which costs a few microseconds to read.
 */
export class ChangeWatcher {
  readonly #connection: Connection;
  readonly #watchers: Watchers;
  #version: unknown;
  /** The position of the last append that the watchers know of. */
  #position: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(connection: Connection, watchers: Watchers) {
    this.#connection = connection;
    this.#watchers = watchers;
  }

  /** Begins to look, until nothing is watched any more. */
  start(): void {
    if (this.#timer !== undefined) return;
    this.#position = undefined;
    void this.#look();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #look(): Promise<void> {
    this.#timer = setTimeout(() => void this.#look(), LOOK_MS).unref();
    if (this.#watchers.isEmpty) return this.stop();
    try {
      const changed = await this.#connection.query(sql => {
        const version = sql.dataVersion.get()?.data_version;
        if (version === this.#version && this.#position !== undefined) return undefined;
        this.#version = version;
        const from = this.#position;
        this.#position = Number(sql.feedEnd.get()?.position ?? 0);
        return from === undefined ? 'anything' : sql.changedRuns.all(from);
      });
      if (changed === undefined) return;
      if (changed === 'anything') return this.#watchers.notifyAll();
      for (const { run_id } of changed) this.#watchers.notifyRun(unescapeText(String(run_id)));
      this.#watchers.notifyWork();
    } catch {
      // The file cannot be read now; the next look comes.
    }
  }
}
