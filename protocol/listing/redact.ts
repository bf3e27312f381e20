import type { BookkeepingEvent, JournalEntry } from '../event.ts';
import type { JsonValue } from '../json.ts';
import type { Owner } from './owner.ts';
import type { Progress } from './run-list.ts';

export type RedactOptions = {
  /** JSON Pointers that begin with the seq of an entry: `/1/input/0/content/0/text`. */
  paths: readonly string[];
  /** Who redacts, for the journal. */
  by?: string;
  /** ms since the epoch. Default: the system time. */
  now?: number;
  /** Whether an owner with an unexpired lease is known to be dead. Default: looks the process up on this machine. */
  isDead?(owner: Owner): boolean;
};

/**
 * The result of a redaction. `values`: how many values were redacted. `elsewhere`: JSON Pointers to where the journal
 * still has one of the redacted texts; other runs are not searched.
 */
export type Redacted = { runId: string; values: number; elsewhere: string[] };

/** A redaction as `redactRun` computes it from a journal and the paths to redact. */
export type Redaction = {
  /** The seq of the last entry that `redactRun` read. */
  after: number;
  /** How often the run had been redacted when `redactRun` read it. */
  redactions: number;
  /** Replacements for the entries with the same seq. */
  entries: readonly JournalEntry[];
  /** The digests of the blobs that the run no longer refers to. */
  blobs: readonly string[];
  /** The state after the redacted journal; it replaces the stored snapshot. */
  state: JsonValue;
  /** The run after the redacted journal. The store also derives the title again if entry 1 is replaced. */
  progress: Progress;
  /** Appended after the last entry; absent if everything was already redacted. */
  event?: Extract<BookkeepingEvent, { type: 'run.redacted' }>;
  /** ms since the epoch. */
  now: number;
  /** Whether an owner with an unexpired lease is known to be gone. */
  isDead(owner: Owner): boolean;
};
