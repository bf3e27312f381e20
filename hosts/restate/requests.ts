import type { Serde } from '@restatedev/restate-sdk';
import type { EngineErrorCode } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type {
  AdoptedRun,
  JournalRest,
  Owner,
  Redaction,
  RunRecord,
  RunStatus,
  Standing,
  StoredSnapshot,
  StoredText,
  ThreadPlace,
} from '../../protocol/store.ts';

/** Its key is the run's id. */
export const RUN_OBJECT = 'AgentchartRun';
/** Of the keys with a run's words: a number follows. */
export const WORDS = 'words ';
/** One invocation is one delivery. */
export const DRIVE_SERVICE = 'AgentchartDrive';
/** Its key is `threadKeyOf` the runs of the thread. */
export const THREAD_OBJECT = 'AgentchartThread';
/** Its key is the run's id. */
export const TEXT_OBJECT = 'AgentchartText';

export type KeptEntry = { event: JsonValue; stateHash?: string };

/** The reason why a run is quarantined by its object: the run is not delivered until a person resumes it. */
export type Quarantine = { code: EngineErrorCode; message: string };

/** What the object of a run stores beside its entries. It is small, because each append writes it. */
export type RunMeta = {
  record: RunRecord;
  /** The seq before the first stored entry. More than 0 if the run was adopted from another store. */
  base: number;
  /** The number of deliveries so far, which is the number of the last delivery. */
  deliveries: number;
  working: number | null;
  isCalledAgain: boolean;
  /** The seq of the last entry that is an input or a claim. */
  lastInput: number;
  watchers: readonly Watcher[];
  children: readonly string[];
  /** The last of the blocks in which the words are by which searches find the run. */
  wordsBlock: number;
  quarantine?: Quarantine;
};

/** What a deleted run leaves, so that nothing meant for it acts on a later run with its id. */
export type Tombstone = Pick<RunMeta, 'deliveries'> & Pick<RunRecord, 'epoch'>;

/** What a watcher waits for: an input or a claim after an entry, or that the run rests, ended or is quarantined. */
type WatchReason = { type: 'input'; after: number } | { type: 'rest' };

/** A watcher, with the id of the awakeable to resolve. */
export type Watcher = { awakeable: string; reason: WatchReason };

/** The inputs and outputs of the run object's handlers. `now`: the caller's clock, in ms since the epoch. */
export type RunRequests = {
  create: {
    input: CreateRequest;
    output: { type: 'created'; seq: number } | { type: 'exists' } | { type: 'changed' };
  };
  adopt: { input: AdoptedRun & { place?: number }; output: { type: 'adopted' } | { type: 'exists' } };
  append: { input: AppendRequest; output: AppendAnswer };
  claim: { input: ClaimDelivery; output: ClaimAnswer };
  release: { input: { epoch: number; wakeAt?: number }; output: boolean };
  isCurrent: { input: { epoch: number }; output: boolean };
  left: { input: { delivery: number; quarantine?: Quarantine }; output: undefined };
  wake: { input: { at: number }; output: undefined };
  /** `lost`: with `resumed`, the number of a delivery that was killed in Restate. */
  call: { input: { reason: 'child-ended' | 'parent-ended' | 'resumed'; lost?: number }; output: boolean };
  addChild: { input: { runId: string }; output: undefined };
  get: { input: undefined; output: RunMeta | null };
  read: { input: { after: number; entries: number; chars: number }; output: ReadAnswer };
  /** Returns false, and changes nothing, if the run is unknown or has another length than `seq`. */
  remove: { input: { seq?: number; others: readonly string[] }; output: boolean };
  rewrite: { input: RewriteRequest; output: Exclude<AppendAnswer, { type: 'superseded' | 'ended' }> };
  saveSnapshot: { input: StoredSnapshot & { redactions: number }; output: boolean };
  loadSnapshot: { input: undefined; output: StoredSnapshot | null };
  putBlob: { input: PutBlobRequest; output: PutBlobAnswer };
  readBlob: { input: { digest: string }; output: string | null };
  leavePlace: { input: undefined; output: undefined };
  listBlobs: { input: undefined; output: string[] };
  watch: { input: Watcher; output: undefined };
  changed: { input: { reason: WatchReason; withinMs: number }; output: boolean };
};

type Moved = { type: 'moved'; latest: string | null };

/** The inputs and outputs of the handlers of a thread's object. `moved`: the run cannot take its place. */
export type ThreadRequests = {
  create: {
    input: CreateRequest & { place: ThreadPlace };
    output: RunRequests['create']['output'] | Moved;
  };
  adopt: { input: AdoptedRun; output: RunRequests['adopt']['output'] | Moved };
  left: { input: { place: number; runId: string }; output: undefined };
};

type CreateRequest = {
  events: readonly JsonValue[];
  record: RunRecord;
} & Pick<JournalRest, 'wakeAt' | 'blobs' | 'source' | 'words'>;

export type AppendRequest = {
  after: number;
  redactions: number;
  epoch?: number;
  events: readonly JsonValue[];
  /** When the last of the events happened, in ms since the epoch. */
  at: number;
  standing: Standing;
};

/** A redaction. `title`: the new title, if entry 1 is replaced. */
type RewriteRequest = Pick<
  Redaction,
  'after' | 'redactions' | 'blobs' | 'state' | 'progress' | 'words' | 'now'
> & {
  entries: readonly (KeptEntry & { seq: number })[];
  event?: JsonValue;
  title?: string;
};

type AppendAnswer =
  | { type: 'appended'; seq: number }
  | { type: 'conflict'; seq: number }
  | { type: 'superseded' }
  | { type: 'ended'; status: RunStatus }
  | { type: 'unknown' };

type ClaimDelivery = { delivery: number; owner: Owner; now: number; unlessEnded: boolean };

type ClaimAnswer =
  | { type: 'claimed'; epoch: number; seq: number }
  | { type: 'held'; owner?: Owner }
  | { type: 'ended' }
  | { type: 'unknown' };

type PutBlobRequest = { digest: string; text: string; redactions?: number };

type PutBlobAnswer = 'stored' | 'changed' | 'unknown';

export type ReadAnswer = {
  base: number;
  last: number;
  redactions: number;
  entries: (KeptEntry & { seq: number })[];
} | null;

export type TextRequests = {
  follow: { input: { until: number }; output: undefined };
  peek: { input: undefined; output: StoredText | null };
  save: { input: { text: StoredText; redactions: number; now: number }; output: boolean };
  /** `redactions`: of the run, if it was redacted or deleted. */
  clear: { input: { redactions?: number }; output: undefined };
  forget: { input: { until: number }; output: undefined };
};

/**
 * Serializes values as JSON, and `undefined` as no bytes. Equal to the serde of Restate's SDK, which is optional and
 * may not be installed.
 *
 * @internal
 */
export function json<Value>(): Serde<Value> {
  return {
    contentType: 'application/json',
    serialize: value =>
      value === undefined ? new Uint8Array() : new TextEncoder().encode(JSON.stringify(value)),
    deserialize: bytes =>
      bytes.length === 0 ? (undefined as Value) : JSON.parse(new TextDecoder().decode(bytes)),
  };
}
