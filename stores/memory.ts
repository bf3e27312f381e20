import type { RunEvent } from '../protocol/event.ts';
import { titleOf } from '../protocol/listing/label.ts';
import type { ClaimRequest, RunRecord, Store } from '../protocol/store.ts';
import { decodeEntry, decodeJson, encodeEvent } from './journal-text.ts';
import { grantLease, isHeld, recordClaim, refuseClaim } from './lease.ts';
import { choose, readListFilter } from './list-query.ts';
import { memoryDeltas } from './memory/memory-deltas.ts';
import { MemoryFeed } from './memory/memory-feed.ts';
import { kinshipOf } from './memory/memory-kinship.ts';
import {
  beginRecord,
  describe,
  expectRun,
  findWork,
  lengthOf,
  makeRun,
  type Run,
  recordStanding,
  replaceEntries,
  wake,
} from './memory/memory-run.ts';
import { takePage, WHOLE } from './page.ts';
import { planDeletion } from './plan-deletion.ts';
import { planPruning, pruneRuns } from './prune.ts';
import { redactIn } from './redact-run.ts';
import {
  assertUnredacted,
  closedStore,
  countByStatus,
  drivenRun,
  existingRun,
  followChain,
  isOpen,
  missingInEmpty,
  missingRun,
  NO_REST,
  refuseAppend,
} from './run-record.ts';
import { Watchers } from './work/watchers.ts';

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
      const run = makeRun({ record: beginRecord(event, standing), progress: standing.progress });
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
      if (isHeld(run.lease, { now, isDead })) throw drivenRun(runId, run.lease, 'redacted');
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
