import type { RunEvent } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import { titleOf } from '../protocol/listing/label.ts';
import {
  type ClaimRequest,
  type CursorRequest,
  changedRun,
  type DeltaStore,
  type FeedEntry,
  type FeedPage,
  type FeedQuery,
  type Owner,
  type Progress,
  type RunRecord,
  type Standing,
  type StandingChange,
  type Store,
  type StoredText,
  type StoreFeed,
  type TakenCursor,
  type WorkRequest,
} from '../protocol/store.ts';
import { decodeEntry, decodeJson, encodeEvent } from './journal-text.ts';
import {
  assertUndriven,
  earlier,
  grantLease,
  isHeld,
  isWork,
  type Lease,
  nextWakeAt,
  recordClaim,
  refuseClaim,
} from './lease.ts';
import { choose, readListFilter } from './list-query.ts';
import { type FeedPlace, readFeedQuery, takePage, toCursor, WHOLE } from './page.ts';
import { findAwaited, type Kinship, planDeletion, planPruning, pruneRuns } from './plan-deletion.ts';
import {
  assertUnredacted,
  closedStore,
  countByStatus,
  describeStart,
  existingRun,
  followChain,
  isOpen,
  missingInEmpty,
  missingRun,
  NO_REST,
  redactIn,
  refuseAppend,
  unknownProgress,
} from './run-record.ts';
import { Watchers } from './watchers.ts';

/**
 * Returns a store that keeps journals in memory, as JSON, until the process ends.
 *
 * @example
 * const agent = createAgent({ name, model, store: memory() });
 */
export function memory(): Store {
  // 1. Every method is atomic: it does all its work before it first yields.
  // 2. Every refusal comes before any change.
  // 3. The store shares no data with callers: it keeps events and snapshots as JSON.
  const runs = new Map<string, Run>();
  const watchers = new Watchers();
  const feed = new MemoryFeed(find);
  const deltas = memoryDeltas(runId => runs.get(runId));
  let isClosed = false;

  /** The runs, as long as the store is open. */
  function open(): Map<string, Run> {
    if (isClosed) throw closedStore();
    return runs;
  }

  function find(runId: string): Run {
    const run = open().get(runId);
    if (run !== undefined) return run;
    throw runs.size === 0 ? missingInEmpty(runId) : missingRun(runId);
  }

  function describeRun(runId: string): RunRecord | undefined {
    const run = open().get(runId);
    return run && describe(run);
  }

  function write(run: Run, event: RunEvent, text: string): void {
    run.journal.push(text);
    feed.add(run.record.runId, lengthOf(run));
    run.record.updatedAt = event.at;
  }

  function grant(run: Run, request: ClaimRequest, text: string): void {
    run.epoch += 1;
    run.lease = grantLease(request);
    run.reservedUntil = undefined;
    if ((run.record.wakeAt ?? 0) <= request.now) delete run.record.wakeAt;
    watchers.notifyRun(run.record.runId);
    write(run, recordClaim(request, run.epoch, undefined), text);
  }

  function remove(runIds: readonly string[]): void {
    for (const id of runIds) runs.delete(id);
    feed.drop(runIds);
  }

  const store: Store = {
    feed,
    deltas,

    async create(event, claim, { events: rest, beside = [], blobs = [], source, ...standing } = NO_REST) {
      const events = [event, ...rest];
      const texts = events.map(encodeEvent);
      const { runId, at } = event;
      if (open().has(runId)) throw existingRun(runId);
      const changes = beside.map(change => ({ change, run: expectRun(find(change.runId), change) }));
      if (source) assertUnredacted(source.runId, runs.get(source.runId), source.redactions);
      const origin = event.forkOf && runs.get(event.forkOf.runId);
      const { status, wakeAt, progress } = standing;
      const record = { ...describeStart(event), status, updatedAt: at, ...omitUndefined({ wakeAt }) };
      const run = makeRun({ record: structuredClone(record), progress });
      for (const [digest, bytes] of origin?.blobs ?? []) run.blobs.set(digest, bytes);
      for (const { digest, text } of blobs) run.blobs.set(digest, new TextEncoder().encode(text));
      const claimed = claim && encodeEvent(recordClaim(claim, 1, undefined));
      runs.set(runId, run);
      events.forEach((written, index) => {
        write(run, written, texts[index] ?? '');
      });
      for (const { run: other, change } of changes) recordStanding(other, change, at);
      if (claim && claimed) grant(run, claim, claimed);
      else watchers.notifyWork();
      return { epoch: run.epoch, seq: lengthOf(run) };
    },

    async adopt({ seq, state, progress, ...adopted }) {
      const { runId, createdAt } = adopted;
      if (open().has(runId)) throw existingRun(runId);
      const record = structuredClone({ ...adopted, updatedAt: createdAt });
      const snapshot = { seq, state: JSON.stringify(state) };
      runs.set(runId, { ...makeRun({ record, progress, base: seq }), snapshot });
      watchers.notifyWork();
    },

    async append(runId, guard, events, standing) {
      const texts = events.map(encodeEvent);
      const run = find(runId);
      const { epoch, redactions } = run;
      const place = { seq: lengthOf(run), epoch, redactions, status: run.record.status };
      const refusal = refuseAppend(runId, place, guard, { events, standing });
      if (refusal !== undefined) return refusal;
      events.forEach((event, index) => {
        write(run, event, texts[index] ?? '');
      });
      recordStanding(run, standing, events.at(-1)?.at);
      const woken = runs.get(standing.wakes ?? '');
      if (woken !== undefined && isOpen(woken.record)) wake(woken, events.at(-1)?.at ?? 0);
      if (woken !== undefined || 'input' in guard) watchers.notifyWork();
      if ('input' in guard) watchers.notifyRun(runId);
      return { type: 'appended', seq: lengthOf(run) };
    },

    async read(runId, after = 0, page = WHOLE) {
      const run = find(runId);
      assertUnredacted(runId, run, page.redactions);
      const { base, journal, stateHashes } = run;
      const from = Math.max(base, after);
      const texts = takePage(
        journal.slice(from - base, from - base + page.entries),
        page,
        text => text.length,
      );
      return texts.map((text, index) => {
        const seq = from + index + 1;
        return decodeEntry(runId, seq, text, stateHashes.get(seq));
      });
    },

    async readJson(runId, limit) {
      const { base, journal } = find(runId);
      return journal.slice(0, limit).map((text, index) => decodeJson(runId, base + index + 1, text));
    },

    async claim(runId, request) {
      const run = find(runId);
      if (request.unlessEnded === true && !isOpen(run.record)) return { type: 'ended' };
      const refusal = refuseClaim(run.lease, request);
      if (refusal !== undefined) return structuredClone(refusal);
      grant(run, request, encodeEvent(recordClaim(request, run.epoch + 1, run.lease)));
      return { type: 'claimed', epoch: run.epoch, seq: lengthOf(run) };
    },

    async renew(leases, { now, leaseMs }) {
      const held = open();
      return leases.filter(({ runId, epoch }) => {
        const run = held.get(runId);
        if (run?.epoch !== epoch || run.lease === undefined) return true;
        run.lease = { ...run.lease, until: now + leaseMs };
        return false;
      });
    },

    async release(runId, epoch, wakeAt) {
      const run = find(runId);
      if (run.epoch !== epoch) return;
      run.lease = undefined;
      wake(run, wakeAt);
      watchers.notifyWork();
    },

    watch: (runId, onChange) => watchers.watch(runId, onChange),

    async takeWork(request) {
      const found = findWork(open().values(), request);
      for (const run of found) run.reservedUntil = request.now + request.reserveMs;
      return found.map(describe);
    },

    countWork: async request => findWork(open().values(), request).length,

    watchWork: onWork => watchers.watchWork(onWork),

    async saveSnapshot(runId, { seq, redactions = 0, state }) {
      const run = find(runId);
      if (redactions !== run.redactions || (run.snapshot?.seq ?? 0) > seq) return;
      run.snapshot = { seq, state: JSON.stringify(state) };
    },

    async loadSnapshot(runId) {
      const snapshot = open().get(runId)?.snapshot;
      return snapshot && { seq: snapshot.seq, state: JSON.parse(snapshot.state) };
    },

    get: async runId => describeRun(runId),

    async list(filter = {}) {
      const query = readListFilter(filter);
      const found = choose(
        [...open().values()].map(({ record }) => record),
        query,
      );
      const last = found.length > query.limit ? found[query.limit - 1] : undefined;
      const records = found.slice(0, query.limit).flatMap(({ runId }) => describeRun(runId) ?? []);
      return last === undefined ? { runs: records } : { runs: records, next: query.cursorAt(last) };
    },

    async putBlob(runId, digest, text, redactions) {
      const run = find(runId);
      assertUnredacted(runId, run, redactions);
      const { blobs } = run;
      if (!blobs.has(digest)) blobs.set(digest, new TextEncoder().encode(text));
    },

    readBlob: async (runId, digest, offset, length) =>
      open()
        .get(runId)
        ?.blobs.get(digest)
        ?.slice(offset, offset + length),

    count: async () =>
      countByStatus([...open().values()].map(({ record }) => ({ status: record.status, count: 1 }))),

    chain: async runId => followChain(runId, describeRun),

    async delete(runId, options = {}) {
      const doomed = planDeletion(kinshipOf(open()), runId, options);
      remove(doomed);
      return doomed;
    },

    prune: options =>
      pruneRuns(store, options, async (runIds, gone) => {
        const doomed = planPruning(kinshipOf(open()), runIds, gone, options);
        if (options.dryRun !== true) remove(doomed);
        return doomed;
      }),

    redact: (runId, options) => redactIn(store, runId, options),

    async rewrite(runId, { after, redactions, entries, blobs, state, progress, event, now, isDead }) {
      const texts = entries.map(entry => ({ ...entry, text: encodeEvent(entry.event) }));
      const eventText = event && encodeEvent(event);
      const run = find(runId);
      assertUndriven(runId, run.lease, { now, isDead }, 'redacted');
      if (after !== lengthOf(run) || redactions !== run.redactions) return { type: 'conflict' };
      run.redactions += 1;
      if (run.lease !== undefined && isOpen(run.record)) wake(run, now);
      run.lease = undefined;
      replaceEntries(run, texts);
      const first = entries.find(({ seq }) => seq === 1)?.event;
      if (first?.type === 'run.started') run.record.title = titleOf(first);
      run.progress = { ...progress };
      if (event && eventText) write(run, event, eventText);
      run.snapshot = { seq: lengthOf(run), state: JSON.stringify(state) };
      for (const digest of blobs) run.blobs.delete(digest);
      void deltas.clear(runId);
      return { type: 'appended', seq: lengthOf(run) };
    },

    async close() {
      isClosed = true;
      watchers.clear();
    },
  };
  return store;
}

type Run = {
  record: Omit<RunRecord, 'seq' | 'epoch' | 'owner' | 'leaseUntil' | 'redactions' | keyof Progress>;
  progress?: Progress | undefined;
  epoch: number;
  redactions: number;
  lease?: Lease | undefined;
  /** Until when `takeWork` does not return the run again, in ms since the epoch. */
  reservedUntil?: number | undefined;
  snapshot?: { seq: number; state: string };
  /** The journal begins after this entry; above 0 only for adopted runs. */
  base: number;
  journal: string[];
  stateHashes: Map<number, string>;
  /** UTF-8 by digest; a fork shares the bytes. */
  blobs: Map<string, Uint8Array>;
};

/** Returns a run without entries, which begins after the entry `base`. */
function makeRun({
  record,
  progress,
  base = 0,
}: Pick<Run, 'record'> & { progress: Progress | undefined; base?: number }): Run {
  const nothing = { journal: [], blobs: new Map(), stateHashes: new Map() };
  return { record, progress: progress && { ...progress }, epoch: 0, redactions: 0, base, ...nothing };
}

function lengthOf({ base, journal }: Run): number {
  return base + journal.length;
}

/** Returns the run if it is as the change expects it. Throws `refused`. */
function expectRun(run: Run, { runId, after, epoch }: StandingChange): Run {
  if (lengthOf(run) !== after || run.epoch !== epoch) throw changedRun(runId);
  return run;
}

function findWork(runs: Iterable<Run>, request: WorkRequest): Run[] {
  return [...runs]
    .filter(run => isWork({ ...run.record, lease: run.lease, reservedUntil: run.reservedUntil }, request))
    .sort((one, other) => one.record.updatedAt - other.record.updatedAt)
    .slice(0, Math.max(0, request.limit));
}

/** Records what an append says about the run. `at`: the time of its last event, if there is one. */
function recordStanding(
  run: Run,
  { status, progress, stateHash, wakeAt }: Standing,
  at: number | undefined,
): void {
  const { record } = run;
  record.status = status;
  const next = nextWakeAt(record.wakeAt, wakeAt, at ?? 0);
  if (next === undefined && record.wakeAt !== undefined) delete record.wakeAt;
  setWakeAt(run, next);
  if (progress !== undefined) run.progress = { ...progress };
  if (stateHash !== undefined && at !== undefined) run.stateHashes.set(lengthOf(run), stateHash);
}

function replaceEntries(
  { journal, stateHashes, base }: Run,
  entries: readonly { seq: number; text: string; stateHash?: string | undefined }[],
): void {
  for (const { seq, text, stateHash } of entries) {
    journal[seq - base - 1] = text;
    if (stateHash !== undefined) stateHashes.set(seq, stateHash);
  }
}

/** Schedules a wake-up at `at`, unless an earlier one is set. */
function wake(run: Run, at: number | undefined): void {
  setWakeAt(run, earlier(run.record.wakeAt, at));
}

function setWakeAt(run: Run, wakeAt: number | undefined): void {
  if (wakeAt !== undefined) run.record.wakeAt = wakeAt;
}

function describe(run: Run): RunRecord {
  const { record, progress, epoch, redactions } = run;
  const lease = run.lease && { owner: { ...run.lease.owner }, leaseUntil: run.lease.until };
  const shown = progress ?? unknownProgress(record.status);
  return { ...structuredClone({ ...record, ...shown }), seq: lengthOf(run), epoch, redactions, ...lease };
}

type Place = { position: number; runId: string; seq: number };

/** The feed of a memory store: the places of its entries, in order. `find` returns the run of a place. */
class MemoryFeed implements StoreFeed {
  readonly #find: (runId: string) => Run;
  readonly #cursors = new Map<string, { cursor: string; lease: { owner: Owner; until: number } }>();
  #places: Place[] = [];
  #last: FeedPlace = { position: 0, seq: 0 };

  constructor(find: (runId: string) => Run) {
    this.#find = find;
  }

  add(runId: string, seq: number): void {
    this.#last = { position: this.#last.position + 1, seq };
    this.#places.push({ position: this.#last.position, runId, seq });
  }

  drop(runIds: readonly string[]): void {
    const gone = new Set(runIds);
    if (gone.size > 0) this.#places = this.#places.filter(({ runId }) => !gone.has(runId));
  }

  async read(query: FeedQuery = {}): Promise<FeedPage> {
    const { position, seq, limit } = readFeedQuery(query);
    const from = this.#firstAfter(position);
    const entries = this.#places.slice(from, from + limit).map(place => this.#readAt(place));
    return { entries, next: entries.at(-1)?.cursor ?? toCursor({ position, seq }) };
  }

  async end(): Promise<string> {
    return toCursor(this.#last);
  }

  async take(name: string, { owner, until, ...request }: CursorRequest): Promise<TakenCursor> {
    const known = this.#cursors.get(name);
    if (known?.lease.owner.id !== owner.id && isHeld(known?.lease, request))
      return structuredClone({ type: 'held', ...known?.lease }) as TakenCursor;
    const cursor = known?.cursor ?? toCursor(this.#last);
    this.#cursors.set(name, { cursor, lease: { owner: { ...owner }, until } });
    return { type: 'taken', cursor };
  }

  async save(name: string, ownerId: string, { cursor, until }: { cursor: string; until: number }) {
    const known = this.#cursors.get(name);
    if (known?.lease.owner.id !== ownerId) return false;
    this.#cursors.set(name, { cursor, lease: { ...known.lease, until } });
    return true;
  }

  #readAt({ position, runId, seq }: Place): FeedEntry {
    const { base, journal } = this.#find(runId);
    const { event } = decodeEntry(runId, seq, journal[seq - base - 1] ?? '', undefined);
    return { runId, seq, event, cursor: toCursor({ position, seq }) };
  }

  /** The index of the first place after a position; positions ascend. */
  #firstAfter(position: number): number {
    let [low, high] = [0, this.#places.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#places[middle]?.position ?? 0) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

type Row = { followedUntil: number; text?: StoredText };

/** The texts of turns in progress, kept with the run that `find` returns; `undefined` for an unknown run. */
function memoryDeltas(find: (runId: string) => { redactions: number } | undefined): DeltaStore {
  const rows = new WeakMap<object, Row>();
  const rowOf = (runId: string): Row => {
    const run = find(runId);
    const row = (run && rows.get(run)) ?? { followedUntil: 0 };
    if (run) rows.set(run, row);
    return row;
  };
  return {
    async follow(runId, { until }) {
      const row = rowOf(runId);
      row.followedUntil = Math.max(row.followedUntil, until);
      return row.text && { ...row.text };
    },
    async save(runId, { seq, json, redactions = 0 }, now) {
      const row = rowOf(runId);
      if (row.followedUntil <= now || find(runId)?.redactions !== redactions) return false;
      row.text = { seq, json };
      return true;
    },
    async clear(runId) {
      delete rowOf(runId).text;
    },
  };
}

function kinshipOf(runs: ReadonlyMap<string, Run>): Kinship {
  const all = [...runs.values()];
  const idsOf = (found: readonly Run[]) => found.map(({ record }) => record.runId);
  return {
    find: runId => {
      const run = runs.get(runId);
      return run && describe(run);
    },
    childrenOf: runId => idsOf(all.filter(({ record }) => record.parent?.runId === runId)),
    continuationsOf: runId => idsOf(all.filter(({ record }) => record.continues === runId)),
    waiting: () =>
      all
        .filter(({ record }) => isOpen(record))
        .map(({ record, journal }) => ({ runId: record.runId, awaited: findAwaited(journal) })),
  };
}
