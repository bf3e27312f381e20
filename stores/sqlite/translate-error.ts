import { EngineError, messageOf } from '../../protocol/error.ts';

type StoreFault =
  | 'store-unavailable'
  | 'store-locked'
  | 'store-full'
  | 'store-damaged'
  | 'store-replaced'
  | 'store-reply-lost';

/**
 * Faults by SQLite's primary result code (the lower eight bits of an extended code); all other codes are
 * `store-unavailable`. Source: https://www.sqlite.org/rescode.html
 */
const FAULTS: Record<number, StoreFault> = {
  1: 'store-damaged',
  5: 'store-locked',
  6: 'store-locked',
  11: 'store-damaged',
  13: 'store-full',
  15: 'store-locked',
  19: 'store-damaged',
  26: 'store-damaged',
};

/** SQLITE_IOERR_SHMSIZE: the file that the processes of a store share could not grow. */
const NO_SHARED_MEMORY = 4874;

/**
 * The codes of a COMMIT that did not write the last page of the transaction, which makes it valid, to the log: busy,
 * full, and SQLITE_IOERR_WRITE. Source: https://www.sqlite.org/fileformat.html#walformat
 */
const REFUSED_COMMITS: ReadonlySet<number> = new Set([5, 13, 778]);

const EXPLANATIONS: Record<StoreFault, { state: string; advice: string }> = {
  'store-unavailable': {
    state: 'cannot be opened or written',
    advice: 'Check that it is a file, that it and its folder are writable, and that the disk has space.',
  },
  'store-full': {
    state: 'cannot grow',
    advice: 'No acknowledged write is lost. Free space on its disk, then resume the runs.',
  },
  'store-locked': {
    state: 'is locked by another process',
    advice: 'Try again, or end the process that holds the lock.',
  },
  'store-replaced': {
    state: 'is not the file that this process opened',
    advice:
      'No further write is acknowledged. Put the file back, or restart this process to use the current file.',
  },
  'store-reply-lost': {
    state: 'did not report whether it committed',
    advice: 'Read the run again to see whether the last write is there.',
  },
  'store-damaged': {
    state: 'is not a database of runs, or is damaged',
    advice: 'Restore it from a backup, name another file, or move it away to start a new one.',
  },
};

/** Returns the error for a fault of the store in `file`; `reason` is what was found, without a full stop. */
export function describeFault(
  fault: StoreFault,
  file: string,
  reason: string,
  options?: { cause: unknown },
): EngineError {
  const { state, advice } = EXPLANATIONS[fault];
  return new EngineError(fault, `${file} ${state}: ${reason}. ${advice}`, { file }, options);
}

export function describeLostReply(file: string, cause: unknown): EngineError {
  return describeFault('store-reply-lost', file, messageOf(cause), { cause });
}

export function isLocked(error: unknown): boolean {
  return error instanceof EngineError && error.code === 'store-locked';
}

export function isFull(error: unknown): boolean {
  return error instanceof EngineError && error.code === 'store-full';
}

/** Whether a failed COMMIT surely wrote nothing. */
export function isRefusedCommit(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && REFUSED_COMMITS.has(Number(error.errcode));
}

/** Converts an error of SQLite or the file system to an `EngineError`; returns any other value unchanged. */
export function translateError(file: string, error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof EngineError) return error;
  const fault = classifyError(error);
  return fault === undefined ? error : describeFault(fault, file, error.message, { cause: error });
}

function classifyError(error: Error): StoreFault | undefined {
  if ('errcode' in error && typeof error.errcode === 'number') {
    if (error.errcode === NO_SHARED_MEMORY) return 'store-full';
    return FAULTS[error.errcode & 0xff] ?? 'store-unavailable';
  }
  if (!('code' in error)) return undefined;
  // A column holds a number that the store never writes.
  if (error.code === 'ERR_OUT_OF_RANGE') return 'store-damaged';
  if (error.code === 'ENOSPC' || error.code === 'EDQUOT') return 'store-full';
  return 'syscall' in error ? 'store-unavailable' : undefined;
}
