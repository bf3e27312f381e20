import type { JournalEntry, RunEvent, RunStarted } from '../protocol/event.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import { titleOf } from '../protocol/listing/label.ts';
import type {
  AdoptedRun,
  AppendGuard,
  AppendResult,
  ClaimRequest,
  ClaimResult,
  DeleteOptions,
  JournalRest,
  LeaseTime,
  ListFilter,
  Page,
  Progress,
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
} from '../protocol/store.ts';
import { decodeEntry, decodeJson, encodeEvent, lostEntries } from './journal-text.ts';
import { grantLease, isHeld, recordClaim, refuseClaim } from './lease.ts';
import { choose, readListFilter } from './list-query.ts';
import { memoryDeltas } from './memory/memory-deltas.ts';
import { MemoryFeed } from './memory/memory-feed.ts';
import { lengthOf, type Run } from './memory/memory-run.ts';
import { takePage, WHOLE } from './page.ts';
import { findAwaited, isOpen, type Kinship, planDeletion } from './plan-deletion.ts';
import { planPruning, pruneRuns } from './prune.ts';
import { redactIn } from './redact-run.ts';
import {
  closedStore,
  countByStatus,
  drivenRun,
  existingRun,
  followChain,
  missingRun,
  unknownProgress,
} from './run-record.ts';

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
  #closed = false;

  async create(
    event: RunStarted,
    claim?: ClaimRequest,
    { events: rest, status, progress }: JournalRest = NO_REST,
  ): Promise<{ epoch: number; seq: number }> {
    this.#refuseIfClosed();
    const events = [event, ...rest];
    const texts = events.map(encodeEvent);
    const { runId, at } = event;
    if (this.#runs.has(runId)) throw existingRun(runId);
    const { continues, parent, labels = {}, forkOf } = event;
    const record = {
      runId,
      agent: event.agent.name,
      title: titleOf(event),
      labels: { ...labels },
      status,
      createdAt: at,
      updatedAt: at,
      ...structuredClone(omitUndefined({ continues, parent, forkOf })),
    };
    const origin = forkOf && this.#runs.get(forkOf.runId);
    const run: Run = {
      record,
      progress: JSON.stringify(progress),
      epoch: 0,
      base: 0,
      journal: [],
      blobs: new Map(origin?.blobs),
      stateHashes: new Map(),
    };
    const claimed = claim && encodeEvent(recordClaim(claim, 1, undefined));
    this.#runs.set(runId, run);
    events.forEach((written, index) => {
      this.#write(run, written, texts[index] ?? '');
    });
    if (claim && claimed) this.#grant(run, claim, claimed);
    return { epoch: run.epoch, seq: lengthOf(run) };
  }

  async adopt({ seq, state, progress, ...adopted }: AdoptedRun): Promise<void> {
    this.#refuseIfClosed();
    const { runId, createdAt } = adopted;
    if (this.#runs.has(runId)) throw existingRun(runId);
    const snapshot = { seq, state: JSON.stringify(state) };
    this.#runs.set(runId, {
      record: structuredClone({ ...adopted, updatedAt: createdAt }),
      progress: JSON.stringify(progress),
      epoch: 0,
      snapshot,
      base: seq,
      journal: [],
      blobs: new Map(),
      stateHashes: new Map(),
    });
  }

  async append(
    runId: string,
    guard: AppendGuard,
    events: readonly RunEvent[],
    { status, stateHash, progress }: Standing,
  ): Promise<AppendResult> {
    this.#refuseIfClosed();
    const texts = events.map(encodeEvent);
    const run = this.#find(runId);
    if ('epoch' in guard && guard.epoch !== run.epoch) return { type: 'superseded' };
    if (guard.after > lengthOf(run)) throw lostEntries(runId, lengthOf(run), guard.after);
    if (guard.after !== lengthOf(run)) return { type: 'conflict' };
    events.forEach((event, index) => {
      this.#write(run, event, texts[index] ?? '');
    });
    run.record = { ...run.record, status };
    run.progress = JSON.stringify(progress) ?? run.progress;
    if (stateHash !== undefined && events.length > 0) run.stateHashes.set(lengthOf(run), stateHash);
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
    const refusal = refuseClaim(run.lease, request);
    if (refusal !== undefined) return structuredClone(refusal);
    this.#grant(run, request, encodeEvent(recordClaim(request, run.epoch + 1, run.lease)));
    return { type: 'claimed', epoch: run.epoch, seq: lengthOf(run) };
  }

  async renew(runId: string, epoch: number, { now, leaseMs }: LeaseTime): Promise<boolean> {
    this.#refuseIfClosed();
    const run = this.#find(runId);
    if (run.epoch !== epoch || run.lease === undefined) return false;
    run.lease = { ...run.lease, until: now + leaseMs };
    return true;
  }

  async release(runId: string, epoch: number): Promise<void> {
    this.#refuseIfClosed();
    const run = this.#find(runId);
    if (run.epoch === epoch) delete run.lease;
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
    const { limit } = query;
    const found = choose(
      [...this.#runs.values()].map(({ record }) => record),
      query,
    );
    const last = found.length > limit ? found[limit - 1] : undefined;
    const runs = found.slice(0, limit).flatMap(({ runId }) => this.#describe(runId) ?? []);
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
    const doomed = planDeletion(this.#kinship(), runId, options);
    this.#remove(doomed);
    return doomed;
  }

  async prune(options: PruneOptions): Promise<string[]> {
    return await pruneRuns(this, options, async (runIds, gone) => {
      const doomed = planPruning(this.#kinship(), runIds, gone, options);
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
    for (const { seq, text, stateHash } of texts) {
      run.journal[seq - run.base - 1] = text;
      if (stateHash !== undefined) run.stateHashes.set(seq, stateHash);
    }
    const first = entries.find(({ seq }) => seq === 1)?.event;
    if (first?.type === 'run.started') run.record = { ...run.record, title: titleOf(first) };
    run.progress = JSON.stringify(progress);
    if (event && eventText) this.#write(run, event, eventText);
    run.snapshot = { seq: lengthOf(run), state: JSON.stringify(state) };
    for (const digest of blobs) run.blobs.delete(digest);
    void this.deltas.clear(runId);
    return { type: 'appended', seq: lengthOf(run) };
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  #kinship(): Kinship {
    const runs = [...this.#runs.values()];
    const idsOf = (found: readonly Run[]) => found.map(({ record }) => record.runId);
    return {
      find: runId => {
        const record = this.#describe(runId);
        return record && { record, parent: record.parent?.runId };
      },
      childrenOf: runId => idsOf(runs.filter(({ record }) => record.parent?.runId === runId)),
      continuationsOf: runId => idsOf(runs.filter(({ record }) => record.continues === runId)),
      waiting: () =>
        runs
          .filter(({ record }) => isOpen(record))
          .map(({ record, journal }) => ({ runId: record.runId, awaited: findAwaited(journal) })),
    };
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
    if (run === undefined) throw missingRun(runId);
    return run;
  }

  #describe(runId: string): RunRecord | undefined {
    const run = this.#runs.get(runId);
    if (run === undefined) return undefined;
    const lease = run.lease && { owner: { ...run.lease.owner }, leaseUntil: run.lease.until };
    const { progress, record } = run;
    const shown: Progress = progress === undefined ? unknownProgress(record.status) : JSON.parse(progress);
    return { ...structuredClone(record), ...shown, seq: lengthOf(run), epoch: run.epoch, ...lease };
  }

  #write(run: Run, event: RunEvent, text: string): void {
    run.journal.push(text);
    this.feed.add(run.record.runId, lengthOf(run));
    run.record = { ...run.record, updatedAt: event.at };
  }

  #grant(run: Run, request: ClaimRequest, text: string): void {
    run.epoch += 1;
    run.lease = grantLease(request);
    this.#write(run, recordClaim(request, run.epoch, undefined), text);
  }
}
