import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { describeFault } from './translate-error.ts';

/** In bytes; a database has a page at least. Source: https://www.sqlite.org/fileformat.html */
const SMALLEST_PAGE_BYTES = 512;

type Found = { id: string; bytes: number; isFile: boolean };

/** Throws `store-damaged` for the remains of a database that SQLite would treat as empty, and overwrite. */
export function refuseRemains(file: string): void {
  // The order matters: a process that is creating the database writes the file before its log.
  const log = findFile(`${file}-wal`);
  const found = findFile(file);
  if (!found?.isFile) return;
  if (found.bytes > 0 && found.bytes < SMALLEST_PAGE_BYTES)
    throw describeFault('store-damaged', file, `it has ${found.bytes} bytes`);
  if (found.bytes === 0 && log !== undefined && log.bytes > 0)
    throw describeFault('store-damaged', file, `it is empty, but its log, ${file}-wal, is not`);
}

/** How long a folder must be unchanged before its time of change can be trusted to show the next change, in ms. */
const SETTLED_MS = 100;

/**
 * The identity of a database file and its log at the time of opening. A process can still write to an open file after
 * it was deleted or replaced, and such writes would be lost. A check costs two `stat` calls, about 5 µs.
 *
 * The log itself is checked only if its folder changed: Linux (6.13 and later) gives a file that was looked at since
 * its last write an exact time at its next write, which made each `fsync` of the log 70 µs slower.
 * Source: https://docs.kernel.org/filesystems/multigrain-ts.html
 */
export class OpenedFile {
  readonly #file: string;
  readonly #id: string | undefined;
  #logId: string | undefined;
  /** When the folder last changed before a check that found the log in place, in ns since the epoch, if settled. */
  #folderChangedAt: bigint | undefined;

  constructor(file: string) {
    this.#file = file;
    this.#id = findFile(file)?.id;
    this.#logId = findFile(`${file}-wal`)?.id;
  }

  /** Throws `store-replaced` if the file or its log was deleted or replaced, and `store-damaged` if it was emptied. */
  assertInPlace(): void {
    const found = findFile(this.#file);
    if (found?.id !== this.#id) throw this.#describe(this.#file, found);
    if (found?.bytes === 0) throw describeFault('store-damaged', this.#file, 'it was emptied');
    const changedAt = statSync(dirname(this.#file), { bigint: true }).ctimeNs;
    if (changedAt === this.#folderChangedAt) return;
    const log = findFile(`${this.#file}-wal`);
    this.#logId ??= log?.id;
    if (log?.id !== this.#logId) throw this.#describe(`${this.#file}-wal`, log);
    this.#folderChangedAt = isSettled(changedAt) ? changedAt : undefined;
  }

  #describe(name: string, found: Found | undefined): Error {
    const reason = found === undefined ? `${name} was deleted` : `${name} was replaced by another file`;
    return describeFault('store-replaced', this.#file, reason);
  }
}

/** Whether a later change gets another time. File systems that keep whole seconds are never trusted. */
function isSettled(changedAt: bigint): boolean {
  return changedAt % 1_000_000_000n !== 0n && Date.now() - Number(changedAt / 1_000_000n) > SETTLED_MS;
}

function findFile(path: string): Found | undefined {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stat && { id: `${stat.dev}:${stat.ino}`, bytes: Number(stat.size), isFile: stat.isFile() };
}
