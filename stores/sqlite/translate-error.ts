import { EngineError } from '../../protocol/error.ts';

type StoreFault = keyof typeof EXPLANATIONS;

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

const EXPLANATIONS = {
  'store-unavailable': [
    'cannot be opened or written',
    'Check that it is a file, that it and its folder are writable, and that the disk has space.',
  ],
  'store-full': [
    'cannot grow',
    'No acknowledged write is lost. Free space on its disk, then resume the runs.',
  ],
  'store-locked': ['is locked by another process', 'Try again, or end the process that holds the lock.'],
  'store-replaced': [
    'is not the file that this process opened',
    'No further write is acknowledged. Put the file back, or restart this process to use the current file.',
  ],
  'store-reply-lost': [
    'did not report whether it committed',
    'Read the run again to see whether the last write is there.',
  ],
  'store-damaged': [
    'is not a database of runs, or is damaged',
    'Restore it from a backup, name another file, or move it away to start a new one.',
  ],
} as const;

/** Returns the error for a fault of the store in `file`; `reason` is what was found, without a full stop. */
export function describeFault(
  fault: StoreFault,
  file: string,
  reason: string,
  options?: { cause: unknown },
): EngineError {
  const [state, advice] = EXPLANATIONS[fault];
  return new EngineError(fault, `${file} ${state}: ${reason}. ${advice}`, { file }, options);
}

export function isFault(error: unknown, fault: StoreFault): boolean {
  return error instanceof EngineError && error.code === fault;
}

export function isRefusedCommit(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && REFUSED_COMMITS.has(Number(error.errcode));
}

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
