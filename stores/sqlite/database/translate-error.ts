import { EngineError, messageOf } from '../../../protocol/error.ts';

type StoreFault =
  | 'store-unavailable'
  | 'store-locked'
  | 'store-full'
  | 'store-damaged'
  | 'store-replaced'
  | 'store-reply-lost';

/**
 * SQLite's primary result codes, the lower eight bits of its extended ones; all others are
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

/**
 * What COMMIT says where the last page of the transaction, the one that makes it valid, is not in the log: busy,
 * full, and SQLITE_IOERR_WRITE. Source: https://www.sqlite.org/fileformat.html#walformat
 */
const REFUSED_COMMITS: ReadonlySet<number> = new Set([5, 13, 778]);

const EXPLANATIONS: Record<StoreFault, { state: string; advice: string }> = {
  'store-unavailable': {
    state: 'cannot be opened or written',
    advice: 'Check that it is a file, that it and its folder are writable, and that the disk has space.',
  },
  'store-full': {
    state: 'has no room to grow',
    advice: 'Nothing that was acknowledged is lost. Make space on its disk, then go on with the runs.',
  },
  'store-locked': {
    state: 'is locked by another process',
    advice: 'Try again, or end the process that holds the lock.',
  },
  'store-replaced': {
    state: 'is not the file that this process opened',
    advice:
      'Nothing is acknowledged any more. Put the file back, or start this process again to use what is there now.',
  },
  'store-reply-lost': {
    state: 'did not say whether it committed',
    advice: 'Read the run again: what was written last is there or not.',
  },
  'store-damaged': {
    state: 'is not a database of runs, or a damaged one',
    advice: 'Restore it from a backup, name another file, or move it away to begin a new one.',
  },
};

/** The error for a fault of the store in `file`; `reason` says what was found, without a full stop. */
export function describeFault(
  fault: StoreFault,
  file: string,
  reason: string,
  options?: { cause: unknown },
): EngineError {
  const { state, advice } = EXPLANATIONS[fault];
  return new EngineError(fault, `${file} ${state}: ${reason}. ${advice}`, { file }, options);
}

/** The error for writes whose commit may be on the disk, although it failed. */
export function describeLostReply(file: string, cause: unknown): EngineError {
  return describeFault('store-reply-lost', file, messageOf(cause), { cause });
}

/** Whether COMMIT failed so that nothing of the transaction can be found later. */
export function isRefusedCommit(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && REFUSED_COMMITS.has(Number(error.errcode));
}

/** An `EngineError` for what SQLite or the file system threw; anything else comes back as it is. */
export function translateError(file: string, error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof EngineError) return error;
  const fault = classifyError(error);
  return fault === undefined ? error : describeFault(fault, file, error.message, { cause: error });
}

function classifyError(error: Error): StoreFault | undefined {
  if ('errcode' in error && typeof error.errcode === 'number') {
    return FAULTS[error.errcode & 0xff] ?? 'store-unavailable';
  }
  if (!('code' in error)) return undefined;
  // A number in a column that none of ours could have become.
  if (error.code === 'ERR_OUT_OF_RANGE') return 'store-damaged';
  if (error.code === 'ENOSPC') return 'store-full';
  return 'syscall' in error ? 'store-unavailable' : undefined;
}
