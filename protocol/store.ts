import type { EngineError } from './error.ts';
import type { JournalEntry, RunEvent, RunStarted } from './event.ts';
import type { JsonValue } from './json.ts';

export type RunStatus = 'running' | 'waiting' | 'finished' | 'failed' | 'cancelled';

/** Who drives a run. */
export type Owner = {
  /** Unique for each driver, also within a process. */
  id: string;
  /** The name of the machine or container, for people: several may have the same one. */
  host: string;
  pid: number;
  /** When the process started, in the platform's own unit; empty where it cannot be known. */
  startedAt: string;
  /**
   * Where `pid` and `startedAt` mean this process: a digest of host, boot and PID namespace. Empty where the
   * platform does not tell, absent from an earlier release; such an owner is never judged by its `pid`.
   */
  space?: string;
  /** Unique for each copy of the engine that is loaded: a worker thread has one of its own. */
  instance?: string;
};

export type RunRecord = {
  runId: string;
  agent: string;
  status: RunStatus;
  createdAt: number;
  updatedAt: number;
  /** Of the last event. */
  seq: number;
  /** Of the last claim; 0 before the first. */
  epoch: number;
  continues?: string;
  /** Who holds the lease and until when (ms since the epoch), if anybody does. */
  owner?: Owner;
  leaseUntil?: number;
};

/** A driver writes under its epoch; anyone else appends inputs. Both only behind the seq they have seen. */
export type AppendGuard = { after: number; epoch: number } | { after: number; input: true };

export type AppendResult =
  | { type: 'appended'; seq: number }
  /** The journal is longer than `after`: read on from there and decide again. A shorter one has lost entries. */
  | { type: 'conflict' }
  /** The epoch is not the run's current one any more. */
  | { type: 'superseded' };

export type ClaimRequest = {
  owner: Owner;
  /** ms since the epoch. */
  now: number;
  leaseMs: number;
  /** Whether an owner with an unexpired lease is known to be gone. */
  isDead(owner: Owner): boolean;
};

export type ClaimResult =
  | { type: 'claimed'; epoch: number; seq: number }
  | { type: 'held'; owner: Owner; until: number };

/** What a journal begins with behind its `run.started`, and the status that all of it leads to. */
export type JournalRest = { events: readonly RunEvent[]; status: RunStatus };

export type ListFilter = {
  status?: RunStatus;
  limit?: number;
  /** Is told of each record that cannot be read, which is left out; without it one such record refuses the list. */
  onDamaged?(error: EngineError): void;
};

/** How much one read gives: never less than one entry, if there is one. */
export type Page = {
  /** At most so many entries. */
  entries: number;
  /** Of their JSON: the entry that reaches it is the last of the page. */
  chars: number;
};

export type StoredSnapshot = { seq: number; state: JsonValue };

export type AdoptedRun = {
  runId: string;
  agent: string;
  status: RunStatus;
  createdAt: number;
  seq: number;
  state: JsonValue;
};

/**
 * Where an append leaves its run. `stateHash` is of the state behind its last entry: given where the run rests or has
 * ended there, kept with that entry, and held against the fold by `replay`.
 */
export type Standing = { status: RunStatus; stateHash?: string };

/**
 * Where journals live. Every method is atomic and durable when its promise settles, whatever else is written in the
 * same commit; it rejects with an `EngineError` (`run-unknown`, `run-exists`, `store-…`, `journal-damaged`). What
 * rejects with `store-reply-lost` may be done or not: read the run again. What an implementation must hold is in
 * `stores/conformance.ts`.
 */
export interface Store {
  /**
   * Begins a journal with `event` as entry 1 and `rest` behind it, and claims the run if `claim` is given,
   * all in one commit: a journal is never found with a part of it.
   */
  create(
    event: RunStarted,
    claim?: ClaimRequest,
    rest?: JournalRest,
  ): Promise<{ epoch: number; seq: number }>;
  /**
   * Takes over a run from elsewhere at `seq`: its journal here begins behind that entry, its fold up to
   * it is the snapshot. Nobody holds its lease.
   */
  adopt(run: AdoptedRun): Promise<void>;
  append(
    runId: string,
    guard: AppendGuard,
    events: readonly RunEvent[],
    standing: Standing,
  ): Promise<AppendResult>;
  /**
   * The entries behind `after` (default 0), in order; of an adopted run, those the store has. With `page`
   * only the first of them, and only they are read: an empty page is the end.
   */
  read(runId: string, after?: number, page?: Page): Promise<JournalEntry[]>;
  /**
   * The entries the store has, or only the first `limit`, as JSON whose words nobody has looked at. A store
   * without it cannot tell a journal of another release from a damaged one.
   */
  readJson?(runId: string, limit?: number): Promise<{ seq: number; event: JsonValue }[]>;
  /** Takes the lease and appends `run.claimed` in one commit. An expired or dead owner is replaced. */
  claim(runId: string, request: ClaimRequest): Promise<ClaimResult>;
  /** False when the epoch is not current any more. */
  renew(runId: string, epoch: number, until: number): Promise<boolean>;
  release(runId: string, epoch: number): Promise<void>;
  /** A cache of the fold up to `seq`; one per run is enough. */
  saveSnapshot(runId: string, snapshot: StoredSnapshot): Promise<void>;
  loadSnapshot(runId: string): Promise<StoredSnapshot | undefined>;
  get(runId: string): Promise<RunRecord | undefined>;
  /** Newest first. */
  list(filter?: ListFilter): Promise<RunRecord[]>;
  /**
   * Keeps `text` with the run, under its digest: a result that is too large for the journal. The same digest
   * again changes nothing. A run that is created with `forkOf` has the blobs of that run too, whatever
   * becomes of it. A text of well-formed Unicode.
   */
  putBlob(runId: string, digest: string, text: string): Promise<void>;
  /** Up to `length` bytes of the text's UTF-8 from `offset` on; `undefined` where the run has no such blob. */
  readBlob(runId: string, digest: string, offset: number, length: number): Promise<Uint8Array | undefined>;
  /** The runs this one continues, oldest first, itself last. */
  chain(runId: string): Promise<RunRecord[]>;
  close(): Promise<void>;
}

/** Whether a process that may be alive holds the run's lease. `now`: ms since the epoch. */
export function isDriven<Leased extends Pick<RunRecord, 'owner' | 'leaseUntil'>>(
  record: Leased,
  now: number,
  isDead: (owner: Owner) => boolean,
): record is Leased & { owner: Owner; leaseUntil: number } {
  const { owner, leaseUntil = 0 } = record;
  return owner !== undefined && leaseUntil > now && !isDead(owner);
}
