import { StatementSync } from 'node:sqlite';
import { vi } from 'vitest';

/** An error as SQLite throws it, with its extended result code. */
export function sqliteError(errcode: number, message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode });
}

/** Calls `act` in place of each COMMIT of this process, with the function that commits, until `restore`; counts from 1. */
export function interceptCommits(act: (commit: () => void, nth: number) => void) {
  const { run } = StatementSync.prototype;
  const counted = { commits: 0 };
  const spy = vi.spyOn(StatementSync.prototype, 'run').mockImplementation(function (
    this: StatementSync,
    ...args
  ) {
    let result: ReturnType<StatementSync['run']> = { changes: 0, lastInsertRowid: 0 };
    const work = () => {
      result = Reflect.apply(run, this, args);
    };
    if (this.sourceSQL === 'COMMIT') act(work, ++counted.commits);
    else work();
    return result;
  });
  return { counted, restore: () => spy.mockRestore() };
}
