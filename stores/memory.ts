import type { RunEvent } from '../protocol/event.ts';
import { omitUndefined } from '../protocol/json.ts';
import { titleOf } from '../protocol/listing/label.ts';
import { addWords } from '../protocol/listing/words.ts';
import {
  type ClaimRequest,
  changedRun,
  isOpen,
  type Progress,
  type RunLink,
  type RunRecord,
  type Standing,
  type Store,
  type StoredText,
  type StoreFeed,
  type ThreadPlace,
  type WorkRequest,
} from '../protocol/store.ts';
import { decodeJson, decodeOwnEntry, encodeEvent } from './journal-text.ts';
import {
  assertUndriven,
  earlier,
  grantLease,
  isWork,
  nextWakeAt,
  recordClaim,
  refuseClaim,
  type StoredLease,
} from './lease.ts';
import {
  choosePage,
  type FeedPlace,
  type ListedRuns,
  readFeedQuery,
  readListFilter,
  takePage,
  threadKeyIn,
  toCursor,
  WHOLE,
} from './list-query.ts';
import { findAwaited, type Kinship, planDeletion, planPruning, pruneRuns } from './plan-deletion.ts';
import {
  assertUnredacted,
  closedStore,
  countByStatus,
  describeStart,
  existingRun,
  followChain,
  missingInEmpty,
  missingRun,
  NO_REST,
  redactIn,
  refuseAppend,
  takePlace,
  threadKeyOf,
  unknownProgress,
} from './run-record.ts';
import { addUp, readTotalsQuery } from './totals.ts';
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
  /** The runs of each thread that have a place, in order. */
  const lines = new Map<string, Run[]>();
  const watchers = new Watchers();
  const { feed, ...places } = makeFeed(find);
  let isClosed = false;

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

  function linkOf(runId: string): RunLink | undefined {
    const run = open().get(runId);
    if (run === undefined) return undefined;
    const { createdAt, continues } = run.record;
    const { redactions } = run;
    return { runId, createdAt, redactions, seq: lengthOf(run), ...omitUndefined({ continues }) };
  }

  function write(run: Run, { event, text }: Encoded): void {
    run.journal.push(text);
    places.add(run.record.runId, lengthOf(run));
    run.record.updatedAt = event.at;
  }

  function grant(run: Run, request: ClaimRequest, claimed: Encoded): void {
    run.epoch += 1;
    run.lease = grantLease(request);
    run.reservedUntil = undefined;
    if ((run.wakeAt ?? 0) <= request.now) run.wakeAt = undefined;
    watchers.notifyRun(run.record.runId);
    write(run, claimed);
  }

  /** The place of a new run, as `takePlace`, and what takes it: nothing changes before that. */
  function findPlace(started: Pick<RunRecord, 'thread' | 'labels'>, wanted: ThreadPlace | undefined) {
    const key = threadKeyOf(started) ?? '';
    const line = lines.get(key) ?? [];
    const old = wanted !== undefined && 'of' in wanted ? runs.get(wanted.of) : undefined;
    const latest = line.at(-1)?.record;
    const place = takePlace(started, wanted, {
      latest: () => latest && { ...latest, place: latest.place ?? 0 },
      free: () => old?.record.place,
    });
    return (run: Run) => {
      if (old !== undefined) delete old.record.place;
      if (place === undefined) return;
      run.record.place = place;
      if (old === undefined) line.push(run);
      else line[line.indexOf(old)] = run;
      lines.set(key, line);
    };
  }

  function remove(runIds: readonly string[]): void {
    const gone = runIds.flatMap(id => runs.get(id) ?? []);
    for (const id of runIds) runs.delete(id);
    for (const key of new Set(gone.flatMap(({ record }) => threadKeyOf(record) ?? []))) {
      const left = (lines.get(key) ?? []).filter(({ record }) => runs.has(record.runId));
      if (left.length > 0) lines.set(key, left);
      else lines.delete(key);
    }
    places.drop(runIds);
  }

  const store: Store = {
    feed,
    deltas: {
      async follow(runId, { until }) {
        const run = runs.get(runId);
        if (run === undefined) return undefined;
        run.followedUntil = Math.max(run.followedUntil, until);
        return run.shown && { ...run.shown };
      },
      async save(runId, { seq, json, redactions = 0 }, now) {
        const run = runs.get(runId);
        if (run === undefined || run.followedUntil <= now || run.redactions !== redactions) return false;
        run.shown = { seq, json };
        return true;
      },
      async clear(runId) {
        const run = runs.get(runId);
        if (run !== undefined) run.shown = undefined;
      },
    },

    async create(
      event,
      claim,
      { events: rest, beside = [], blobs = [], source, place, ...standing } = NO_REST,
    ) {
      const entries = [event, ...rest].map(encode);
      const { runId, at } = event;
      if (open().has(runId)) throw existingRun(runId);
      const changes = beside.map(change => ({ change, run: find(change.runId) }));
      for (const { run, change } of changes)
        if (lengthOf(run) !== change.after || run.epoch !== change.epoch) throw changedRun(change.runId);
      if (source) assertUnredacted(source.runId, runs.get(source.runId), source.redactions);
      const origin = event.forkOf && runs.get(event.forkOf.runId);
      const { status, wakeAt, progress } = standing;
      const run = makeRun({ ...describeStart(event), status, updatedAt: at }, { progress, wakeAt });
      const takePlace = findPlace(run.record, place);
      for (const [digest, bytes] of origin?.blobs ?? []) run.blobs.set(digest, bytes);
      for (const { digest, text } of blobs) run.blobs.set(digest, new TextEncoder().encode(text));
      const claimed = claim && encode(recordClaim(claim, 1, undefined));
      run.words = addWords([], standing.words ?? '');
      runs.set(runId, run);
      takePlace(run);
      for (const entry of entries) write(run, entry);
      for (const { run: other, change } of changes) recordStanding(other, change, at);
      if (claim && claimed) grant(run, claim, claimed);
      else watchers.notifyWork();
      return { epoch: run.epoch, seq: lengthOf(run) };
    },

    async adopt({ seq, state, progress, wakeAt, ...adopted }) {
      const { runId, createdAt } = adopted;
      if (open().has(runId)) throw existingRun(runId);
      const run = makeRun({ ...adopted, updatedAt: createdAt }, { progress, wakeAt, base: seq });
      const takePlace = findPlace(run.record, {
        after: lines.get(threadKeyOf(run.record) ?? '')?.at(-1)?.record.runId ?? null,
      });
      run.snapshot = { seq, state: JSON.stringify(state) };
      runs.set(runId, run);
      takePlace(run);
      watchers.notifyWork();
    },

    async append(runId, guard, events, standing) {
      const entries = events.map(encode);
      const run = find(runId);
      const { epoch, redactions } = run;
      const place = { seq: lengthOf(run), epoch, redactions, status: run.record.status };
      const refusal = refuseAppend(runId, place, guard, { events, standing });
      if (refusal !== undefined) return refusal;
      for (const entry of entries) write(run, entry);
      const at = events.at(-1)?.at;
      recordStanding(run, standing, at);
      const woken = runs.get(standing.wakes ?? '');
      if (woken !== undefined && isOpen(woken.record)) woken.wakeAt = earlier(woken.wakeAt, at ?? 0);
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
        return decodeOwnEntry(seq, text, stateHashes.get(seq));
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
      grant(run, request, encode(recordClaim(request, run.epoch + 1, run.lease)));
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
      run.wakeAt = earlier(run.wakeAt, wakeAt);
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
      const isOne = query.latest === true && query.folded !== true && query.words === undefined;
      const key = isOne ? threadKeyIn(query) : undefined;
      const among = key === undefined ? [...open().values()] : (lines.get(key) ?? []).slice(-1);
      const { page, next } = choosePage(among, query, LISTED);
      return { runs: page.map(describe), ...omitUndefined({ next }) };
    },

    async totals(filter = {}, query = {}) {
      return addUp([...open().values()], readTotalsQuery(filter, query), LISTED);
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

    chain: async runId => followChain(runId, linkOf),

    async delete(runIds, options = {}) {
      const doomed = planDeletion(kinshipOf(open()), runIds, options);
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

    async rewrite(
      runId,
      { after, redactions, entries, blobs, state, progress, words = '', event, now, isDead },
    ) {
      const changed = entries.map(entry => ({ ...entry, ...encode(entry.event) }));
      const added = event && encode(event);
      const run = find(runId);
      assertUndriven(runId, run.lease, { now, isDead }, 'redacted');
      if (after !== lengthOf(run) || redactions !== run.redactions) return { type: 'conflict' };
      run.redactions += 1;
      if (run.lease !== undefined && isOpen(run.record)) run.wakeAt = earlier(run.wakeAt, now);
      run.lease = undefined;
      for (const { seq, text, stateHash } of changed) {
        run.journal[seq - run.base - 1] = text;
        if (stateHash !== undefined) run.stateHashes.set(seq, stateHash);
      }
      const first = entries.find(({ seq }) => seq === 1)?.event;
      if (first?.type === 'run.started') run.record.title = titleOf(first);
      run.progress = { ...progress };
      run.words = addWords([], words);
      if (added) write(run, added);
      run.snapshot = { seq: lengthOf(run), state: JSON.stringify(state) };
      for (const digest of blobs) run.blobs.delete(digest);
      run.shown = undefined;
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
  record: Omit<
    RunRecord,
    'seq' | 'epoch' | 'owner' | 'leaseUntil' | 'wakeAt' | 'redactions' | keyof Progress
  >;
  progress?: Progress | undefined;
  epoch: number;
  redactions: number;
  wakeAt: number | undefined;
  lease?: StoredLease | undefined;
  /** Until when `takeWork` does not return the run again, in ms since the epoch. */
  reservedUntil?: number | undefined;
  snapshot?: { seq: number; state: string };
  /** The journal begins after this entry; above 0 only for adopted runs. */
  base: number;
  journal: string[];
  stateHashes: Map<number, string>;
  /** By which searches find the run, by commit. */
  words: string[];
  /** UTF-8 by digest; a fork shares the bytes. */
  blobs: Map<string, Uint8Array>;
  followedUntil: number;
  shown?: StoredText | undefined;
};

function makeRun(
  record: Run['record'],
  { base = 0, ...told }: Pick<Run, 'progress' | 'wakeAt'> & { base?: number },
): Run {
  const nothing = { journal: [], words: [], blobs: new Map(), stateHashes: new Map(), followedUntil: 0 };
  return { ...structuredClone({ record, ...told }), epoch: 0, redactions: 0, base, ...nothing };
}

type Encoded = { event: RunEvent; text: string };

function encode(event: RunEvent): Encoded {
  return { event, text: encodeEvent(event) };
}

function lengthOf({ base, journal }: Run): number {
  return base + journal.length;
}

function findWork(runs: Iterable<Run>, request: WorkRequest): Run[] {
  const found: Run[] = [];
  for (const run of runs) {
    const { record, lease, wakeAt, reservedUntil } = run;
    // Most runs have ended, and servers look for work at each commit.
    if (isOpen(record) && isWork({ ...record, lease, wakeAt, reservedUntil }, request)) found.push(run);
  }
  return found
    .sort((one, other) => one.record.updatedAt - other.record.updatedAt)
    .slice(0, Math.max(0, request.limit));
}

function recordStanding(run: Run, standing: Standing, at: number | undefined): void {
  const { status, progress, stateHash, wakeAt, words } = standing;
  run.record.status = status;
  run.wakeAt = nextWakeAt(run.wakeAt, wakeAt, at ?? 0);
  if (progress !== undefined) run.progress = { ...progress };
  if (words !== undefined && at !== undefined) run.words = addWords(run.words, words);
  if (stateHash !== undefined && at !== undefined) run.stateHashes.set(lengthOf(run), stateHash);
}

const LISTED: ListedRuns<Run> = {
  recordOf: ({ record }) => record,
  progressOf: ({ progress }) => progress,
  wordsOf: ({ words }) => words,
};

function describe(run: Run): RunRecord {
  const { record, progress, epoch, redactions, wakeAt } = run;
  const lease = run.lease && { owner: { ...run.lease.owner }, leaseUntil: run.lease.until };
  const shown = progress ?? unknownProgress(record.status);
  const counts = { seq: lengthOf(run), epoch, redactions, ...omitUndefined({ wakeAt }) };
  return { ...structuredClone({ ...record, ...shown }), ...counts, ...lease };
}

/** The feed of a memory store: the places of its entries, in order. `find` returns the run of a place. */
function makeFeed(find: (runId: string) => Run) {
  const cursors = new Map<string, { cursor: string; lease: StoredLease }>();
  let places: (FeedPlace & { runId: string })[] = [];
  let last: FeedPlace = { position: 0, seq: 0 };

  function firstAfter(position: number): number {
    let [low, high] = [0, places.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((places[middle]?.position ?? 0) <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  const feed: StoreFeed = {
    async read(query = {}) {
      const { limit, ...after } = readFeedQuery(query);
      const from = firstAfter(after.position);
      const entries = places.slice(from, from + limit).map(({ runId, ...place }) => {
        const { base, journal } = find(runId);
        const { seq, event } = decodeOwnEntry(place.seq, journal[place.seq - base - 1] ?? '');
        return { runId, seq, event, cursor: toCursor(place) };
      });
      return { entries, next: entries.at(-1)?.cursor ?? toCursor(after) };
    },
    end: async () => toCursor(last),
    async take(name, { until, ...request }) {
      const known = cursors.get(name);
      const refusal = refuseClaim(known?.lease, request);
      if (refusal !== undefined) return structuredClone(refusal);
      const cursor = known?.cursor ?? toCursor(last);
      cursors.set(name, { cursor, lease: { owner: { ...request.owner }, until } });
      return { type: 'taken', cursor };
    },
    async save(name, ownerId, { cursor, until }) {
      const known = cursors.get(name);
      if (known?.lease.owner.id !== ownerId) return false;
      cursors.set(name, { cursor, lease: { ...known.lease, until } });
      return true;
    },
  };
  return {
    feed,
    add(runId: string, seq: number): void {
      last = { position: last.position + 1, seq };
      places.push({ ...last, runId });
    },
    drop(runIds: readonly string[]): void {
      const gone = new Set(runIds);
      if (gone.size > 0) places = places.filter(({ runId }) => !gone.has(runId));
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
