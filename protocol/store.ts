import * as z from 'zod/mini';
import { EngineError } from './error.ts';
import type { BookkeepingEvent, JournalEntry, RunEvent, RunStarted } from './event.ts';
import { isJsonObject, type JsonValue } from './json.ts';
import { type Labels, labelsSchema, threadSchema } from './listing/label.ts';
import type { Totals, TotalsQuery } from './listing/totals.ts';
import { lazyObject, lazySchema } from './schemas/lazy-schema.ts';

/** The driver that holds a lease. */
export type Owner = {
  /** Unique for each driver, even within one process. */
  id: string;
  /** The name of the machine or container, for display; not unique. */
  host: string;
  pid: number;
  /** When the process started, in a platform-specific unit; empty if unknown. */
  startedAt: string;
  /**
   * A digest of host, boot and PID namespace: the scope in which `pid` and `startedAt` identify the process. Empty or
   * absent if unknown; such an owner is never declared dead by its `pid`.
   */
  space?: string;
  /** Unique for each loaded copy of the engine; each worker thread has its own. */
  instance?: string;
};

const runStatusSchema = lazySchema(() => z.enum(['running', 'waiting', 'finished', 'failed', 'cancelled']));
export type RunStatus = z.infer<typeof runStatusSchema>;

/** What lists show of a run's course; written with its appends, so that no list reads a journal. */
export const progressSchema = lazyObject(() => ({
  /** The path of the current state, such as `resting.awaitingApproval`. */
  state: z.string(),
  /** Why the chart decided so, in words. */
  why: z.exactOptional(z.string()),
  /**
   * What a waiting run waits for: the first 20 calls, the review of its answer, whose `callId` is its id, or sign-ins, whose
   * `callId` and `name` are that of the server.
   */
  waitsFor: z.exactOptional(
    z.array(
      z.object({
        type: z.enum(['approval', 'result', 'doubt', 'question', 'review', 'sign-in']),
        callId: z.string(),
        name: z.string(),
        /** The sub-agent's run that provides the result. */
        runId: z.exactOptional(z.string()),
      }),
    ),
  ),
  /** The model of the latest turn that was completed or failed, such as `openai:gpt-5`. */
  model: z.exactOptional(z.string()),
  turns: z.number(),
  /** Input and output tokens. */
  tokens: z.number(),
  /** Of `of` input tokens, so many came from the provider's cache; absent if no provider says. */
  cached: z.exactOptional(z.object({ tokens: z.number(), of: z.number() })),
  cost: z.number(),
  activeMs: z.number(),
  /** When the run ended, in ms since the epoch. */
  endedAt: z.exactOptional(z.number()),
  /** The error code of a failed run. */
  errorCode: z.exactOptional(z.string()),
  /** Why the answer of a finished run is incomplete. */
  incomplete: z.exactOptional(z.object({ reason: z.string() })),
}));
export type Progress = z.infer<typeof progressSchema>;

/** The longest page of a list. */
export const MOST_LISTED = 1_000;

/** How many runs a list can skip. */
export const MOST_SKIPPED = 1_000_000;

export const LIST_SORTS = [
  'created',
  'updated',
  'title',
  'agent',
  'status',
  'worked',
  'cost',
  'tokens',
] as const;

const time = lazySchema(() => z.exactOptional(z.number()));
const runId = lazySchema(() => z.string().check(z.maxLength(1_000)));
const name = lazySchema(() => z.exactOptional(runId));

export const listFilterSchema = lazySchema(() =>
  z.strictObject({
    status: z.exactOptional(runStatusSchema),
    /** The agent's name. */
    agent: name,
    /** Labels that the run has, with these values; it may have others. */
    labels: z.exactOptional(labelsSchema),
    /** A thread: its runs, with their forks; or an id: the runs of all threads with it. */
    thread: z.exactOptional(
      z.union([threadSchema, z.strictObject({ id: threadSchema, labels: labelsSchema })]),
    ),
    /** `true`: of each thread only the latest run, and no run outside threads. */
    latest: z.exactOptional(z.literal(true)),
    /**
     * `true`: no runs of sub-agents, of each thread only the latest run, and of the runs that are left, with the same
     * `session` label and with `labels`, only the newest. The other members choose among these.
     */
    folded: z.exactOptional(z.literal(true)),
    /** `true`: only runs that wait for the decision of a doubt. */
    doubt: z.exactOptional(z.literal(true)),
    /** The model of the latest turn, as in `Progress`. */
    model: name,
    /** The error code of failed runs. */
    errorCode: name,
    /** `false`: no runs that wait. */
    waiting: z.exactOptional(z.literal(false)),
    /** The id of the run whose sub-agents' runs to list, or the ids of up to 100. */
    parent: z.exactOptional(z.union([runId, z.array(runId).check(z.minLength(1), z.maxLength(100))])),
    /**
     * Words, separated by white space, in upper or lower case. Each is somewhere in the id, the thread, the title, the
     * labels or the `words` of the run; with `latest`, of one run of its thread. If none has three characters, only the
     * newest 10,000 runs that match otherwise are looked at.
     */
    text: z.exactOptional(z.string().check(z.minLength(1), z.maxLength(200))),
    /** Created at this time or later, in ms since the epoch. */
    since: time,
    /** Created before this time, in ms since the epoch. */
    before: time,
    /**
     * What the runs are sorted by, then by creation, then by id; `worked` is `activeMs`, and titles are compared in lower
     * case. Default: `created`.
     */
    sort: z.exactOptional(z.enum(LIST_SORTS)),
    /** Highest or newest first (`desc`, the default), or lowest or oldest first. */
    order: z.exactOptional(z.enum(['asc', 'desc'])),
    /** How many of the matching runs to leave out before the first one, up to 1,000,000. Not with `cursor`. */
    skip: z.exactOptional(z.int().check(z.minimum(0), z.maximum(MOST_SKIPPED))),
    /** The runs of one page, 1 to 1,000. Default 50. */
    limit: z.exactOptional(z.int().check(z.minimum(1), z.maximum(MOST_LISTED))),
    /** `next` of the page before. All members except `limit` and `skip` must be the same as for that page. */
    cursor: z.exactOptional(z.string().check(z.maxLength(20_000))),
  }),
);

/**
 * Which runs to list: those that match all given members. `since` and `before` are times of creation in ms since the epoch;
 * `limit` is 1 to 1,000 (default 50); `cursor` is `next` of the page before, with the same other members except `skip`.
 */
export type ListFilter = z.infer<typeof listFilterSchema> & {
  /** Called for each unreadable record, which is skipped. Without it, an unreadable record rejects the call. */
  onDamaged?(error: EngineError): void;
};

/** A filter of `list` without what is about pages. */
export type TotalsFilter = Omit<ListFilter, 'sort' | 'order' | 'skip' | 'limit' | 'cursor' | 'onDamaged'>;

/** A run as stores know it. Without `Progress` from an append, `state` is the status and all numbers are 0. */
export type RunRecord = Progress & {
  runId: string;
  agent: string;
  /** See `titleOf`. */
  title: string;
  labels: Labels;
  status: RunStatus;
  createdAt: number;
  updatedAt: number;
  /** The seq of the last event. */
  seq: number;
  /** The epoch of the last claim; 0 before the first. */
  epoch: number;
  /**
   * How often the run was redacted. Who read the run when it was another number may have read what is redacted now, and
   * writes none of it: each call that writes names the number that its content was read at.
   */
  redactions: number;
  continues?: string;
  /** The id of the thread that the run belongs to; a thread is its id with the labels of its runs. */
  thread?: string;
  /**
   * The place of the run in its thread, from 1; the latest run has the highest. Absent for a run that no run continues
   * the thread with: a fork, unless it took a place, and a run whose successor took its place.
   */
  place?: number;
  /** For a child run: the call of the parent run that started it. */
  parent?: { runId: string; callId: string };
  /** The run whose journal was copied, and the last entry of the copy. */
  forkOf?: { runId: string; at: number };
  /** The holder of the lease, if any. */
  owner?: Owner;
  /** When the lease expires, in ms since the epoch. */
  leaseUntil?: number;
  /** The version of the agent that began the run, if it has one. */
  agentVersion?: string;
  /** The chart that the run was begun with; absent for a run that came from another store without it. */
  chart?: ChartIdentity;
  /** When the run has to be driven again although it rests, in ms since the epoch; absent without such a time. */
  wakeAt?: number;
};

/** A run of a chain, with what shows whether it has changed since it was read. */
export type RunLink = Pick<RunRecord, 'runId' | 'createdAt' | 'redactions' | 'seq' | 'continues'>;

/**
 * A driver appends with its epoch; other processes append inputs. Both append only directly after seq `after`, and to a
 * run with as many `redactions` (default 0).
 */
export type AppendGuard = { after: number; redactions?: number } & ({ epoch: number } | { input: true });

export type AppendResult =
  | { type: 'appended'; seq: number }
  /**
   * The journal does not end at `after`, or the run was redacted meanwhile. Read on, after a redaction from the start, and
   * decide again. If the journal is shorter, entries were lost.
   */
  | { type: 'conflict' }
  /** The epoch is no longer the current epoch of the run. */
  | { type: 'superseded' };

/** A run that was read, and how often it had been redacted before. */
export type CopySource = Pick<RunRecord, 'runId' | 'redactions'>;

/**
 * The initial events after `run.started`, and the run after them, as in `Standing`. `source`: the run that the events are
 * a copy of. In the same commit: its `blobs` (see `putBlob`), and `beside`, changes of other runs, at most one of each.
 * `place`: which place a run of a thread takes; none without it.
 */
export type JournalRest = Pick<Standing, 'status' | 'progress' | 'wakeAt' | 'words'> & {
  events: readonly RunEvent[];
  blobs?: readonly { digest: string; text: string }[];
  beside?: readonly StandingChange[];
  source?: CopySource;
  place?: ThreadPlace;
};

/**
 * The place after the latest run of the thread, which is `after` as the caller read it (`null` for a thread without
 * runs) and has ended; or the place of the run `of`, which then has none.
 */
export type ThreadPlace = { after: string | null } | { of: string };

/** One page of a list. `next` is the cursor of the following page; absent at the end. */
export type RunList = { runs: RunRecord[]; next?: string };

/**
 * The maximum size of one read. A read returns at least one entry, if there is one. With `redactions`, it rejects as
 * changed if the run was redacted another number of times: several pages are of one journal.
 */
export type Page = {
  /** The maximum number of entries. */
  entries: number;
  /** The size of their JSON: the entry that reaches it is the last of the page. */
  chars: number;
  redactions?: number;
};

export type StoredSnapshot = { seq: number; state: JsonValue };

export type AdoptedRun = Pick<
  RunRecord,
  | 'runId'
  | 'agent'
  | 'title'
  | 'labels'
  | 'thread'
  | 'parent'
  | 'createdAt'
  | 'seq'
  | 'agentVersion'
  | 'chart'
> &
  Pick<Standing, 'status' | 'progress' | 'wakeAt'> & { state: JsonValue };

type LeaseCheck = {
  /** The time for lease checks, in ms since the epoch. Default: the system time. */
  now?: number;
  /** Whether an owner with an unexpired lease is known to be dead. Default: none is. */
  isDead?(owner: Owner): boolean;
};

export type DeleteOptions = LeaseCheck & {
  /** Also deletes the runs that continue this one or wait for one of its children. Default: refuse. */
  cascade?: boolean;
};

export type PruneOptions = LeaseCheck & {
  /** Only runs that ended before this time, in ms since the epoch. Required. */
  before: number;
  /** Only runs with this status: `finished`, `failed` or `cancelled`. */
  status?: RunStatus;
  /** Only runs that have these labels, with these values. */
  labels?: Labels;
  /** Deletes nothing: returns what would be deleted. */
  dryRun?: boolean;
};

/** The run after an append. */
export type Standing = {
  status: RunStatus;
  /** The hash of the state after the last entry, if the run rests or has ended; `replay` checks it. */
  stateHash?: string;
  /** Without it, the stored one stays. */
  progress?: Progress;
  /**
   * When a run that rests has to be driven again, in ms since the epoch; absent if only an input wakes it. It replaces
   * the stored time, unless that has come: only a claim removes a time that has come.
   */
  wakeAt?: number;
  /** A run to wake in the same commit, if it has not ended: the parent of a run that has ended. */
  wakes?: string;
  /**
   * Words by which searches find the run from now on, as `wordsOf` returns them. A store keeps those of the latest commits,
   * up to 16,384 characters together. An append without events adds none.
   */
  words?: string;
};

/** A version of the chart; the hash tells two charts of one version apart. */
type ChartIdentity = { version: number; hash: string };

/**
 * The time of a lease. A store that several machines share decides with a clock of its own, and takes `now` only as the
 * time of the event; it shows `leaseUntil` on the caller's clock.
 */
type LeaseTime = {
  /** The caller's time, in ms since the epoch. */
  now: number;
  leaseMs: number;
};

export type ClaimRequest = LeaseTime & {
  owner: Owner;
  /** Whether an owner with an unexpired lease is known to be gone. */
  isDead(owner: Owner): boolean;
  /** Refuses the claim if the run has ended. */
  unlessEnded?: boolean;
};

export type ClaimResult =
  | { type: 'claimed'; epoch: number; seq: number }
  | { type: 'held'; owner: Owner; until: number }
  /** The status of the run is final, and the claim was made with `unlessEnded`. */
  | { type: 'ended' };

/** A change of a run's record without an entry, if its journal ends at `after` and its epoch is `epoch`. */
export type StandingChange = Pick<Standing, 'status' | 'wakeAt'> & {
  runId: string;
  after: number;
  epoch: number;
};

/** The error for a call about a run that changed since its caller read it: entries, driver, redactions. */
export function changedRun(runId: string): EngineError {
  const message = `Run "${runId}" has changed since it was read, so nothing was done. Read it again and decide again.`;
  return new EngineError('refused', message, { runId, changed: true });
}

/** Whether an error is one of `changedRun`. */
export function isChangedRun(error: unknown): boolean {
  if (!(error instanceof EngineError) || error.code !== 'refused') return false;
  return isJsonObject(error.details) && error.details.changed === true;
}

/** The error for a run that cannot take its place, because the latest run of its thread is another one or has not ended. */
export function changedThread(thread: string, latest: string | null): EngineError {
  const what =
    latest === null ? 'has no runs' : `has the run "${latest}", which is its latest now or has not ended`;
  const message = `Thread "${thread}" ${what}, so no run was begun in it. Read the thread again and decide again.`;
  return new EngineError('refused', message, { thread, latest });
}

/** The latest run of the thread, for an error of `changedThread`; `undefined` for other errors. */
export function latestIn(error: unknown): { latest: string | null } | undefined {
  if (!(error instanceof EngineError) || error.code !== 'refused' || !isJsonObject(error.details))
    return undefined;
  const { latest } = error.details;
  return latest === null || typeof latest === 'string' ? { latest } : undefined;
}

/** A lease as its holder knows it. */
export type HeldLease = { runId: string; epoch: number };

/** Which runs a worker can drive, and how many it wants. */
export type WorkRequest = {
  /** The names of the agents; with `versions`, only runs that one of these versions began, or one without a version. */
  agents: readonly { name: string; versions?: readonly string[] }[];
  /** Only runs of these charts, and runs whose chart is unknown. Default: of any chart. */
  charts?: readonly ChartIdentity[];
  /** How many runs at most. */
  limit: number;
  /** For how long the runs are hidden from other requests, in ms, unless they are claimed before. */
  reserveMs: number;
  /** The caller's time, in ms since the epoch. A store with a clock of its own takes that. */
  now: number;
  /** Whether an owner with an unexpired lease is known to be gone: its runs are taken before the lease expires. */
  isDead?(owner: Owner): boolean;
  /** Called for each unreadable record. Such a run is skipped and does not affect the others. */
  onDamaged?(error: EngineError): void;
};

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
  /** The words by which searches find the run, in place of those that the store has. Default: none. */
  words?: string;
  /** Appended after the last entry; absent if everything was already redacted. */
  event?: Extract<BookkeepingEvent, { type: 'run.redacted' }>;
  /** ms since the epoch. */
  now: number;
  /** Whether an owner with an unexpired lease is known to be gone. */
  isDead(owner: Owner): boolean;
};

/** An entry of some run, with its place in the store: `cursor` is the place after it. */
export type FeedEntry = { runId: string; seq: number; event: RunEvent; cursor: string };

export type FeedQuery = {
  /** The cursor after which to start. Default: the start of the store. */
  after?: string;
  /** The maximum number of entries. Default 100. */
  limit?: number;
  /** Called for an entry that cannot be read, which is skipped. Without it, such an entry rejects the call. */
  onDamaged?(error: EngineError): void;
};

/** `next` is the cursor for the next page; equal to `after` if the page is empty. */
export type FeedPage = { entries: FeedEntry[]; next: string };

/** Who takes a cursor, and until when, in ms since the epoch. */
type CursorRequest = {
  owner: Owner;
  now: number;
  until: number;
  /** Whether an owner with an unexpired lease is known to be gone. */
  isDead(owner: Owner): boolean;
};

export type TakenCursor = { type: 'taken'; cursor: string } | { type: 'held'; owner: Owner; until: number };

/**
 * The entries of all runs of a store, in the order of their commits, and cursors that the store keeps for their
 * readers. An entry that commits after a page was read comes after that page's cursor, whichever transaction began first.
 * The entries of a deleted run are gone; places are never used again.
 */
export interface StoreFeed {
  /** Returns a page of entries. Rejects with `input-invalid` for a text that is not a cursor. */
  read(query?: FeedQuery): Promise<FeedPage>;
  /** Returns the cursor after the last entry. */
  end(): Promise<string>;
  /**
   * Claims the cursor of this name for one reader among all processes. A new name starts at the end of the store. Returns
   * `held` while another owner, not known to be dead, has an unexpired lease.
   */
  take(name: string, request: CursorRequest): Promise<TakenCursor>;
  /** Keeps the cursor and extends the lease; returns false, and changes nothing, if another owner has taken it. */
  save(name: string, ownerId: string, at: { cursor: string; until: number }): Promise<boolean>;
}

/** The text of a run's current turn, as JSON. `seq`: the last entry of the journal before it. */
export type StoredText = { seq: number; json: string };

/**
 * Carries the text of turns in progress to other processes, beside the journals. It may be lost; entries never are. Times
 * are in ms since the epoch. An unknown run has no text, and saving or following it changes nothing.
 */
export interface DeltaStore {
  /** Returns the text so far; `undefined` if there is none. The run has a follower until `until`. */
  follow(runId: string, time: { now: number; until: number }): Promise<StoredText | undefined>;
  /**
   * Replaces the text so far if the run has a follower, and was redacted as often as `redactions` says (default 0).
   * Returns whether it did.
   */
  save(runId: string, text: StoredText & { redactions?: number }, now: number): Promise<boolean>;
  /** Deletes the text. */
  clear(runId: string): Promise<void>;
}

/**
 * A store of journals. Every method is atomic, and durable when its promise resolves. Methods reject with an
 * `EngineError` (`run-unknown`, `run-exists`, `store-…`, `journal-damaged`). "As changed" is `refused` with
 * `{ changed: true }` in the details: the caller reads the run again. After `store-reply-lost` it is unknown
 * whether the operation was committed: read the run again. `stores/conformance.ts` tests an implementation.
 */
export interface Store {
  /** `false`: entries get no hash of the state, so that `replay` cannot verify the journals. Default `true`. */
  readonly hashes?: boolean;
  /**
   * Creates a journal with `event` as entry 1, followed by `rest`, and claims the run if `claim` is given, all in one
   * commit. Creates nothing and rejects as changed if a run that `rest` changes is not as expected, or its source was
   * redacted meanwhile or deleted; and with `changedThread` if the run cannot take its place. So the runs of a thread are
   * in one order, and at most one with a place has not ended.
   */
  create(
    event: RunStarted,
    claim?: ClaimRequest,
    rest?: JournalRest,
  ): Promise<{ epoch: number; seq: number }>;
  /**
   * Imports a run from another store at `seq`. The journal in this store begins after that entry; `state` becomes the
   * snapshot. The run has no lease. A run of a thread takes the place after the latest; rejects with `changedThread` if
   * that one has not ended.
   */
  adopt(run: AdoptedRun): Promise<void>;
  /**
   * Appends events in one commit, if `guard` allows it. `standing` describes the run after the last event. Rejects with
   * `refused` if it would reopen a run that has ended.
   */
  append(
    runId: string,
    guard: AppendGuard,
    events: readonly RunEvent[],
    standing: Standing,
  ): Promise<AppendResult>;
  /**
   * Returns the entries after `after` (default 0), in order; for an adopted run, those that the store has. With `page`,
   * reads and returns only one page; an empty page means the end.
   */
  read(runId: string, after?: number, page?: Page): Promise<JournalEntry[]>;
  /**
   * Returns all entries, or the first `limit`, as unchecked JSON. Without this method, a journal of another release
   * cannot be told from a damaged one.
   */
  readJson?(runId: string, limit?: number): Promise<{ seq: number; event: JsonValue }[]>;
  /**
   * Takes the lease and appends `run.claimed` in one commit. An expired or dead owner is replaced. Ends a reservation,
   * and removes a `wakeAt` that has come.
   */
  claim(runId: string, request: ClaimRequest): Promise<ClaimResult>;
  /**
   * Extends leases to `leaseMs` from now, in one commit. Returns those that are lost: the epoch is no longer current, the
   * lease was released, or the run was deleted.
   */
  renew(leases: readonly HeldLease[], time: LeaseTime): Promise<HeldLease[]>;
  /** Gives up the lease, if any. The run is woken at `wakeAt` (ms since the epoch) or earlier. Only if `epoch` is current. */
  release(runId: string, epoch: number, wakeAt?: number): Promise<void>;
  /**
   * Calls `onChange` after another process, or another caller of this one, has appended an input to the run or claimed
   * it, and after times without knowledge. It is a hint: it may come late, without a reason, or not at all. Returns a
   * function that ends it. Without this method, callers look for entries themselves.
   */
  watch?(runId: string, onChange: () => void): () => void;
  /**
   * Reserves runs that have something to do and that no process drives, longest untouched first: runs with status `running`,
   * runs whose `wakeAt` has come, and runs whose owner is gone. No run is reserved twice at a time. Claim them to drive
   * them. Returns their records.
   */
  takeWork?(request: WorkRequest): Promise<RunRecord[]>;
  /** Returns how many runs `takeWork` would return, and reserves none. */
  countWork?(request: WorkRequest): Promise<number>;
  /** Calls `onWork` when `takeWork` may find runs. Otherwise like `watch`. Does not call it when a `wakeAt` comes. */
  watchWork?(onWork: () => void): () => void;
  /**
   * Stores the state after `seq`; a store may keep only one snapshot per run. Drops the state of a run that was redacted
   * another number of times than `redactions` (default 0).
   */
  saveSnapshot(runId: string, snapshot: StoredSnapshot & { redactions?: number }): Promise<void>;
  loadSnapshot(runId: string): Promise<StoredSnapshot | undefined>;
  get(runId: string): Promise<RunRecord | undefined>;
  /**
   * Returns one page of the matching runs, without reading journals. Runs that are created or deleted between two pages
   * neither repeat nor hide another run. Rejects with `input-invalid` for an invalid filter or another filter's cursor.
   */
  list(filter?: ListFilter): Promise<RunList>;
  /**
   * Adds up the runs that match the filter, without reading journals: one row for each group, or one in all. Rejects with
   * `input-invalid`, also for a filter that names the order or a page of a list.
   */
  totals(filter?: TotalsFilter, query?: TotalsQuery): Promise<Totals>;
  /**
   * Stores a result that is too large for the journal, under its digest; the same digest again changes nothing. `text`
   * is well-formed Unicode. A run created with `forkOf` keeps the blobs of that run, even if that run is deleted. With
   * `redactions`, rejects as changed if the run was redacted another number of times.
   */
  putBlob(runId: string, digest: string, text: string, redactions?: number): Promise<void>;
  /** Returns up to `length` bytes of the text's UTF-8 from `offset`; `undefined` if the run has no such blob. */
  readBlob(runId: string, digest: string, offset: number, length: number): Promise<Uint8Array | undefined>;
  /** The text of turns in progress. Without it, a process that follows a run has the text of a turn at its end. */
  readonly deltas?: DeltaStore;
  /** Rejects with `store-full` after a write failed because the disk was full, until a megabyte fits again. */
  assertRoom?(): Promise<void>;
  /** Returns the number of runs with each status, without reading them. */
  count?(): Promise<Record<RunStatus, number>>;
  /** The entries of all runs in one order; absent for a store without. `agent.on` needs it. */
  readonly feed?: StoreFeed;
  /** Returns the runs that this run continues, oldest first, ending with the run itself. `get` has the rest of a record. */
  chain(runId: string): Promise<RunLink[]>;
  /**
   * Deletes the run, or several, and its child runs in one commit, with all data that no other run uses: entries,
   * snapshots, items, blobs. Returns their ids, its own first. Rejects with `refused` while one of them is driven, while the parent run
   * has not ended, and, without `cascade`, while another run continues or waits for one of them. After `store-locked`,
   * here and in `redact`, the deletion may be done while the store's log still has the bytes: read the run again.
   */
  delete(runIds: string | readonly string[], options?: DeleteOptions): Promise<string[]>;
  /**
   * Deletes the runs that ended before a time, each with its child runs, in several commits. Returns their ids. Spares
   * runs that have not ended, that are driven, or that another run which stays continues or waits for; a child run goes
   * with its parent only. Rejects with `input-invalid` without `before`.
   */
  prune(options: PruneOptions): Promise<string[]>;
  /**
   * Rewrites the files of the store, which may have copies of parts of deleted runs: once it resolves, none has. Absent for
   * a store that has no files, or whose files are a server's. Rejects with `store-locked` while others use them.
   */
  purge?(): Promise<void>;
  /**
   * Replaces values in a run's journal, and everything the store derived from them, by their digests. Once it resolves,
   * no file of the store contains the values. An implementation calls `redactRun`, which uses `read` and `rewrite`.
   * Rejects with the errors of `redactRun`.
   */
  redact(runId: string, options: RedactOptions): Promise<Redacted>;
  /**
   * Replaces entries by their redacted versions and the snapshot by the new state, and deletes blobs that are no longer
   * used, in one commit, which adds 1 to the `redactions` of the run, ends a lease that has expired, and removes the text
   * of a turn. Once it resolves, no file of the store contains what was replaced. A conflict if the journal does not
   * end at `after`, or the run was redacted another number of times. Rejects with `refused` while the run is driven.
   * Only `redactRun` calls it: it decides what may be redacted.
   */
  rewrite(runId: string, redaction: Redaction): Promise<Exclude<AppendResult, { type: 'superseded' }>>;
  close(): Promise<void>;
}

/** Whether the run has not ended. */
export function isOpen({ status }: Pick<RunRecord, 'status'>): boolean {
  return status === 'running' || status === 'waiting';
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

/** Yields all matching runs, page by page. */
export async function* listAll(
  store: Pick<Store, 'list'>,
  filter: Omit<ListFilter, 'limit' | 'cursor'> = {},
): AsyncGenerator<RunRecord, void> {
  let page = await store.list({ ...filter, limit: MOST_LISTED });
  for (;;) {
    yield* page.runs;
    if (page.next === undefined) return;
    page = await store.list({ ...filter, limit: MOST_LISTED, cursor: page.next });
  }
}
