import type { JournalEntry, RunEvent, RunStarted } from '../protocol/event.ts';
import type { JsonValue } from '../protocol/json.ts';
import { titleOf } from '../protocol/listing/label.ts';
import type {
  AdoptedRun,
  AppendGuard,
  AppendResult,
  ClaimRequest,
  ClaimResult,
  DeleteOptions,
  HeldLease,
  JournalRest,
  LeaseTime,
  ListFilter,
  Page,
  PruneOptions,
  Redacted,
  Redaction,
  RedactOptions,
  RunList,
  RunRecord,
  RunStatus,
  Standing,
  Store,
  StoredSnapshot,
  WorkRequest,
} from '../protocol/store.ts';
import { decodeEntry, decodeJson, encodeEvent, lostEntries } from './journal-text.ts';
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
  assertNotReopened,
  closedStore,
  countByStatus,
  drivenRun,
  existingRun,
  followChain,
  isOpen,
  missingRun,
} from './run-record.ts';
import { Watchers } from './work/watchers.ts';

/**
 * Returns a store that keeps journals in memory, as JSON, until the process ends.
 *
 * @example
 * const agent = createAgent({ name, model, store: memory() });
 */
export function memory(): Store {
  return new MemoryStore();
}

const NO_REST: JournalRest = { events: [], status: 'running' };

/**
 * 1. Every method is atomic: it does all its work before it first yields.
 * 2. Every refusal comes before any change.
 * 3. The store shares no data with callers: it keeps events and snapshots as JSON.
 */
class MemoryStore implements Store {
  readonly feed = new MemoryFeed(runId => this.#find(runId));
  readonly #runs = new Map<string, Run>();
  readonly deltas = memoryDeltas(runId => this.#runs.get(runId));
  readonly #watchers = new Watchers();
  #closed = false;

  async create(
    event: RunStarted,
    claim?: ClaimRequest,
    { events: rest, beside = [], ...standing }: JournalRest = NO_REST,
  ): Promise<{ epoch: number; seq: number }> {
    this.#refuseIfClosed();
    const events = [event, ...rest];
    const texts = events.map(encodeEvent);
    const { runId, at } = event;
    if (this.#runs.has(runId)) throw existingRun(runId);
    const changes = beside.map(change => ({ change, run: expectRun(this.#find(change.runId), change) }));
    const origin = event.forkOf && this.#runs.get(event.forkOf.runId);
    const run = makeRun({ record: beginRecord(event, standing), progress: standing.progress });
    for (const [digest, bytes] of origin?.blobs ?? []) run.blobs.set(digest, bytes);
    const claimed = claim && encodeEvent(recordClaim(claim, 1, undefined));
    this.#runs.set(runId, run);
    events.forEach((written, index) => {
      this.#write(run, written, texts[index] ?? '');
    });
    for (const { run: other, change } of changes) recordStanding(other, change, at);
    if (claim && claimed) this.#grant(run, claim, claimed);
    else this.#watchers.notifyWork();
    return { epoch: run.epoch, seq: lengthOf(run) };
  }

  async adopt({ seq, state, progress, ...adopted }: AdoptedRun): Promise<void> {
    this.#refuseIfClosed();
    const { runId, createdAt } = adopted;
    if (this.#runs.has(runId)) throw existingRun(runId);
    const record = structuredClone({ ...adopted, updatedAt: createdAt });
    const snapshot = { seq, state: JSON.stringify(state) };
    this.#runs.set(runId, { ...makeRun({ record, progress, base: seq }), snapshot });
    this.#watchers.notifyWork();
  }

  async append(
    runId: string,
    guard: AppendGuard,
    events: readonly RunEvent[],
    standing: Standing,
  ): Promise<AppendResult> {
    this.#refuseIfClosed();
    const texts = events.map(encodeEvent);
    const run = this.#find(runId);
    if ('epoch' in guard && guard.epoch !== run.epoch) return { type: 'superseded' };
    if (guard.after > lengthOf(run)) throw lostEntries(runId, lengthOf(run), guard.after);
    if (guard.after !== lengthOf(run)) return { type: 'conflict' };
    assertNotReopened(runId, run.record.status, events, standing);
    events.forEach((event, index) => {
      this.#write(run, event, texts[index] ?? '');
    });
    recordStanding(run, standing, events.at(-1)?.at);
    const woken = this.#runs.get(standing.wakes ?? '');
    if (woken !== undefined && isOpen(woken.record)) wake(woken, events.at(-1)?.at ?? 0);
    if (woken !== undefined || 'input' in guard) this.#watchers.notifyWork();
    if ('input' in guard) this.#watchers.notifyRun(runId);
    return { type: 'appended', seq: lengthOf(run) };
  }

  async read(runId: string, after = 0, page: Page = WHOLE): Promise<JournalEntry[]> {
    this.#refuseIfClosed();
    const { base, journal, stateHashes } = this.#find(runId);
    const from = Math.max(base, after);
    const texts = takePage(journal.slice(from - base, from - base + page.entries), page, text => text.length);
    return texts.map((text, index) => {
      const seq = from + index + 1;
      return decodeEntry(runId, seq, text, stateHashes.get(seq));
    });
  }

  async readJson(runId: string, limit?: number): Promise<{ seq: number; event: JsonValue }[]> {
    this.#refuseIfClosed();
    const { base, journal } = this.#find(runId);
    return journal.slice(0, limit).map((text, index) => decodeJson(runId, base + index + 1, text));
  }

  async claim(runId: string, request: ClaimRequest): Promise<ClaimResult> {
    this.#refuseIfClosed();
    const run = this.#find(runId);
    if (request.unlessEnded === true && !isOpen(run.record)) return { type: 'ended' };
    const refusal = refuseClaim(run.lease, request);
    if (refusal !== undefined) return structuredClone(refusal);
    this.#grant(run, request, encodeEvent(recordClaim(request, run.epoch + 1, run.lease)));
    return { type: 'claimed', epoch: run.epoch, seq: lengthOf(run) };
  }

  async renew(leases: readonly HeldLease[], { now, leaseMs }: LeaseTime): Promise<HeldLease[]> {
    this.#refuseIfClosed();
    return leases.filter(({ runId, epoch }) => {
      const run = this.#runs.get(runId);
      if (run?.epoch !== epoch || run.lease === undefined) return true;
      run.lease = { ...run.lease, until: now + leaseMs };
      return false;
    });
  }

  async release(runId: string, epoch: number, wakeAt?: number): Promise<void> {
    this.#refuseIfClosed();
    const run = this.#find(runId);
    if (run.epoch !== epoch) return;
    run.lease = undefined;
    wake(run, wakeAt);
    this.#watchers.notifyWork();
  }

  watch(runId: string, onChange: () => void): () => void {
    return this.#watchers.watch(runId, onChange);
  }

  async takeWork(request: WorkRequest): Promise<RunRecord[]> {
    this.#refuseIfClosed();
    const found = findWork(this.#runs.values(), request);
    for (const run of found) run.reservedUntil = request.now + request.reserveMs;
    return found.map(describe);
  }

  async countWork(request: WorkRequest): Promise<number> {
    this.#refuseIfClosed();
    return findWork(this.#runs.values(), request).length;
  }

  watchWork(onWork: () => void): () => void {
    return this.#watchers.watchWork(onWork);
  }

  async saveSnapshot(runId: string, { seq, state }: StoredSnapshot): Promise<void> {
    this.#refuseIfClosed();
    const run = this.#find(runId);
    if (run.snapshot === undefined || run.snapshot.seq <= seq) {
      run.snapshot = { seq, state: JSON.stringify(state) };
    }
  }

  async loadSnapshot(runId: string): Promise<StoredSnapshot | undefined> {
    this.#refuseIfClosed();
    const snapshot = this.#runs.get(runId)?.snapshot;
    return snapshot && { seq: snapshot.seq, state: JSON.parse(snapshot.state) };
  }

  async get(runId: string): Promise<RunRecord | undefined> {
    this.#refuseIfClosed();
    return this.#describe(runId);
  }

  async list(filter: ListFilter = {}): Promise<RunList> {
    this.#refuseIfClosed();
    const query = readListFilter(filter);
    const found = choose(
      [...this.#runs.values()].map(({ record }) => record),
      query,
    );
    const last = found.length > query.limit ? found[query.limit - 1] : undefined;
    const runs = found.slice(0, query.limit).flatMap(({ runId }) => this.#describe(runId) ?? []);
    return last === undefined ? { runs } : { runs, next: query.cursorAt(last) };
  }

  async putBlob(runId: string, digest: string, text: string): Promise<void> {
    this.#refuseIfClosed();
    const { blobs } = this.#find(runId);
    if (!blobs.has(digest)) blobs.set(digest, new TextEncoder().encode(text));
  }

  async readBlob(
    runId: string,
    digest: string,
    offset: number,
    length: number,
  ): Promise<Uint8Array | undefined> {
    this.#refuseIfClosed();
    return this.#runs
      .get(runId)
      ?.blobs.get(digest)
      ?.slice(offset, offset + length);
  }

  async count(): Promise<Record<RunStatus, number>> {
    this.#refuseIfClosed();
    return countByStatus([...this.#runs.values()].map(({ record }) => ({ status: record.status, count: 1 })));
  }

  async chain(runId: string): Promise<RunRecord[]> {
    this.#refuseIfClosed();
    return followChain(runId, id => this.#describe(id));
  }

  async delete(runId: string, options: DeleteOptions = {}): Promise<string[]> {
    this.#refuseIfClosed();
    const doomed = planDeletion(kinshipOf(this.#runs), runId, options);
    this.#remove(doomed);
    return doomed;
  }

  async prune(options: PruneOptions): Promise<string[]> {
    return await pruneRuns(this, options, async (runIds, gone) => {
      const doomed = planPruning(kinshipOf(this.#runs), runIds, gone, options);
      if (options.dryRun !== true) this.#remove(doomed);
      return doomed;
    });
  }

  async redact(runId: string, options: RedactOptions): Promise<Redacted> {
    return await redactIn(this, runId, options);
  }

  async rewrite(
    runId: string,
    { after, entries, blobs, state, progress, event, now, isDead }: Redaction,
  ): Promise<Exclude<AppendResult, { type: 'superseded' }>> {
    this.#refuseIfClosed();
    const texts = entries.map(entry => ({ ...entry, text: encodeEvent(entry.event) }));
    const eventText = event && encodeEvent(event);
    const run = this.#find(runId);
    if (isHeld(run.lease, { now, isDead })) throw drivenRun(runId, run.lease, 'redacted');
    if (after !== lengthOf(run)) return { type: 'conflict' };
    replaceEntries(run, texts);
    const first = entries.find(({ seq }) => seq === 1)?.event;
    if (first?.type === 'run.started') run.record.title = titleOf(first);
    run.progress = { ...progress };
    if (event && eventText) this.#write(run, event, eventText);
    run.snapshot = { seq: lengthOf(run), state: JSON.stringify(state) };
    for (const digest of blobs) run.blobs.delete(digest);
    void this.deltas.clear(runId);
    return { type: 'appended', seq: lengthOf(run) };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#watchers.clear();
  }

  #remove(runIds: readonly string[]): void {
    for (const id of runIds) this.#runs.delete(id);
    this.feed.drop(runIds);
  }

  #refuseIfClosed(): void {
    if (this.#closed) throw closedStore();
  }

  #find(runId: string): Run {
    const run = this.#runs.get(runId);
    if (run !== undefined) return run;
    throw missingRun(runId);
  }

  #describe(runId: string): RunRecord | undefined {
    const run = this.#runs.get(runId);
    return run && describe(run);
  }

  #write(run: Run, event: RunEvent, text: string): void {
    run.journal.push(text);
    this.feed.add(run.record.runId, lengthOf(run));
    run.record.updatedAt = event.at;
  }

  #grant(run: Run, request: ClaimRequest, text: string): void {
    run.epoch += 1;
    run.lease = grantLease(request);
    run.reservedUntil = undefined;
    if ((run.record.wakeAt ?? 0) <= request.now) delete run.record.wakeAt;
    this.#watchers.notifyRun(run.record.runId);
    this.#write(run, recordClaim(request, run.epoch, undefined), text);
  }
}
