import { sleep, systemHost } from '../../engine/host/host.ts';
import { EngineError } from '../../protocol/error.ts';
import type { JournalEntry, RunEvent, RunStarted } from '../../protocol/event.ts';
import { isRunEvent } from '../../protocol/is-run-event.ts';
import { type JsonValue, omitUndefined, toJson } from '../../protocol/json.ts';
import { titleOf } from '../../protocol/listing/label.ts';
import type { Totals, TotalsQuery } from '../../protocol/listing/totals.ts';
import { addWords } from '../../protocol/listing/words.ts';
import {
  type AdoptedRun,
  type AppendGuard,
  type AppendResult,
  type ClaimRequest,
  type ClaimResult,
  changedRun,
  changedThread,
  type DeleteOptions,
  type HeldLease,
  isChangedRun,
  isOpen,
  type JournalRest,
  type ListFilter,
  type Page,
  type PruneOptions,
  type Redacted,
  type Redaction,
  type RedactOptions,
  type RunLink,
  type RunList,
  type RunRecord,
  type Standing,
  type Store,
  type StoredSnapshot,
  type TotalsFilter,
} from '../../protocol/store.ts';
import { decodeEntry, encodeEvent, lostEntries } from '../../stores/journal-text.ts';
import { assertUndriven, leaseOf } from '../../stores/lease.ts';
import { choosePage, type ListedRuns, readListFilter, WHOLE } from '../../stores/list-query.ts';
import {
  AWAITING,
  findAwaited,
  type Kinship,
  planDeletion,
  planPruning,
  pruneRuns,
} from '../../stores/plan-deletion.ts';
import {
  assertUnredacted,
  closedStore,
  countByStatus,
  describeStart,
  endedRun,
  existingRun,
  followChain,
  missingRun,
  NO_REST,
  redactIn,
  threadKeyOf,
  unknownProgress,
} from '../../stores/run-record.ts';
import { addUp, readTotalsQuery } from '../../stores/totals.ts';
import type { RestateCalls } from './ingress.ts';
import { type KeptEntry, type ReadAnswer, RUN_OBJECT, type RunMeta, WORDS } from './requests.ts';
import { restateDeltas } from './text-object.ts';

/** The owner that is reported for a run that this process was not asked to drive. */
const RESTATE = { id: 'restate', host: 'restate', pid: 0, startedAt: '' };

const WATCH_MS = 30_000;
/** The wait before the next request after an input, and after a failure, in ms. */
const SOON_MS = 100;
const LATER_MS = 1_000;
const IDLE = { keepAlive: false };

/** The deliveries of this process, by run id. Only they may claim. */
export type StoredDeliveries = ReadonlyMap<string, number>;

/**
 * The journals of runs whose objects live in Restate.
 *
 * S1 A run can be claimed only for a delivery that this process is working on. Leases do not expire: the epoch of the
 *    latest claim fences older drivers.
 * S2 A call whose response is lost is repeated with its idempotency key, and takes effect once.
 * S3 `create` claims nothing: Restate delivers the run.
 */
export class RestateStore implements Store {
  readonly deltas;
  #calls: RestateCalls;
  readonly #deliveries: StoredDeliveries;
  readonly #seen = new Map<string, number>();
  #isClosed = false;

  constructor(calls: RestateCalls, deliveries: StoredDeliveries = new Map()) {
    this.#calls = calls;
    this.#deliveries = deliveries;
    this.deltas = restateDeltas(calls);
  }

  async create(
    event: RunStarted,
    _claim?: ClaimRequest,
    { events, status, progress, wakeAt, words, beside = [], blobs, source, place }: JournalRest = NO_REST,
  ): Promise<{ epoch: number; seq: number }> {
    if (beside.length > 0) throw oneObject(event.runId);
    const json = [event, ...events].map(toEventJson);
    const { runId } = event;
    const record: RunRecord = {
      ...unknownProgress(status),
      ...progress,
      ...describeStart(event),
      status,
      updatedAt: events.at(-1)?.at ?? event.at,
      seq: 0,
      epoch: 0,
      redactions: 0,
    };
    const request = { events: json, record, ...omitUndefined({ wakeAt, blobs, source, words }) };
    const key = threadKeyOf(record);
    const answer =
      key === undefined || place === undefined
        ? await this.#calls.run(runId, 'create', request)
        : await this.#calls.thread(key, 'create', { ...request, place });
    if (answer.type === 'moved') throw changedThread(record.thread ?? '', answer.latest);
    if (answer.type === 'exists') throw existingRun(runId);
    if (answer.type === 'changed') throw changedRun(source?.runId ?? runId);
    return { epoch: 0, seq: answer.seq };
  }

  async adopt(run: AdoptedRun): Promise<void> {
    const key = threadKeyOf(run);
    const answer =
      key === undefined
        ? await this.#calls.run(run.runId, 'adopt', run)
        : await this.#calls.thread(key, 'adopt', run);
    if (answer.type === 'moved') throw changedThread(run.thread ?? '', answer.latest);
    if (answer.type === 'exists') throw existingRun(run.runId);
  }

  async append(
    runId: string,
    guard: AppendGuard,
    events: readonly RunEvent[],
    standing: Standing,
  ): Promise<AppendResult> {
    const { after, redactions = 0 } = guard;
    const at = events.at(-1)?.at ?? 0;
    const request = { after, redactions, events: events.map(toEventJson), at, standing };
    const epoch = 'epoch' in guard ? { epoch: guard.epoch } : {};
    const answer = await this.#calls.run(runId, 'append', { ...request, ...epoch });
    if (answer.type === 'unknown') throw missingRun(runId);
    if (answer.type === 'ended') throw endedRun(runId, answer.status);
    if (answer.type === 'conflict' && answer.seq < after) throw lostEntries(runId, answer.seq, after);
    if (answer.type === 'appended') this.#see(runId, answer.seq);
    return answer.type === 'conflict' ? { type: 'conflict' } : answer;
  }

  async read(runId: string, after = 0, page: Page = WHOLE): Promise<JournalEntry[]> {
    const { entries, end } = await readEntries(this.#calls, runId, after, page);
    if (end !== undefined) this.#see(runId, end);
    return entries.map(({ seq, event, stateHash }) =>
      isRunEvent(event)
        ? withHash({ seq, event }, stateHash)
        : decodeEntry(runId, seq, JSON.stringify(event)),
    );
  }

  async readJson(
    runId: string,
    limit = Number.POSITIVE_INFINITY,
  ): Promise<{ seq: number; event: JsonValue }[]> {
    const { entries } = await readEntries(this.#calls, runId, 0, { ...WHOLE, entries: limit });
    return entries.map(({ seq, event }) => ({ seq, event }));
  }

  async claim(runId: string, { owner, now, unlessEnded = false }: ClaimRequest): Promise<ClaimResult> {
    const delivery = this.#deliveries.get(runId);
    if (delivery === undefined) return { type: 'held', owner: RESTATE, until: Number.MAX_SAFE_INTEGER };
    const answer = await this.#calls.run(runId, 'claim', { delivery, owner, now, unlessEnded });
    if (answer.type === 'unknown') throw missingRun(runId);
    if (answer.type === 'ended') return answer;
    if (answer.type === 'claimed') {
      this.#seen.set(runId, answer.seq);
      return answer;
    }
    return { type: 'held', owner: answer.owner ?? RESTATE, until: Number.MAX_SAFE_INTEGER };
  }

  async renew(leases: readonly HeldLease[]): Promise<HeldLease[]> {
    const current = await Promise.all(
      leases.map(({ runId, epoch }) => this.#calls.run(runId, 'isCurrent', { epoch })),
    );
    return leases.filter((_, index) => current[index] === false);
  }

  async release(runId: string, epoch: number, wakeAt?: number): Promise<void> {
    const request = { epoch, ...omitUndefined({ wakeAt }) };
    if (!(await this.#calls.run(runId, 'release', request))) throw missingRun(runId);
  }

  watch(runId: string, onChange: () => void): () => void {
    const end = new AbortController();
    const { signal } = end;
    this.#seen.set(runId, this.#seen.get(runId) ?? 0);
    const poll = async () => {
      while (!signal.aborted && !this.#isClosed) {
        const reason = { type: 'input', after: this.#seen.get(runId) ?? 0 } as const;
        const request = this.#calls.run(runId, 'changed', { reason, withinMs: WATCH_MS });
        const isChanged = await request.catch(() => null);
        if (signal.aborted) return;
        if (isChanged !== false) onChange();
        // Until the entry is read, the next request would return immediately.
        if (isChanged !== false) await sleep(systemHost, isChanged ? SOON_MS : LATER_MS, signal, IDLE);
      }
    };
    void poll();
    return () => {
      end.abort();
      this.#seen.delete(runId);
    };
  }

  async saveSnapshot(...[runId, snapshot]: Parameters<Store['saveSnapshot']>): Promise<void> {
    const { seq, redactions = 0, state } = snapshot;
    const isKnown = await this.#calls.run(runId, 'saveSnapshot', { seq, redactions, state: toJson(state) });
    if (!isKnown) throw missingRun(runId);
  }

  async loadSnapshot(runId: string): Promise<StoredSnapshot | undefined> {
    return (await this.#calls.run(runId, 'loadSnapshot', undefined)) ?? undefined;
  }

  async get(runId: string): Promise<RunRecord | undefined> {
    const meta = await this.#calls.run(runId, 'get', undefined);
    return meta === null ? undefined : describe(meta);
  }

  /** Lists runs by an SQL query. The result is as recent as the last commit of each partition. */
  async list(filter: ListFilter = {}): Promise<RunList> {
    const query = readListFilter(filter);
    const { page, next } = choosePage(await readListed(this.#calls, query), query, LISTED);
    return { runs: page.map(describe), ...omitUndefined({ next }) };
  }

  async totals(filter: TotalsFilter = {}, query: TotalsQuery = {}): Promise<Totals> {
    const wanted = readTotalsQuery(filter, query);
    return addUp(await readListed(this.#calls, wanted.list), wanted, LISTED);
  }

  async count() {
    return countByStatus(
      (await readMetas(this.#calls)).map(describe).map(({ status }) => ({ status, count: 1 })),
    );
  }

  async putBlob(runId: string, digest: string, text: string, redactions?: number): Promise<void> {
    const request = { digest, text, ...omitUndefined({ redactions }) };
    const answer = await this.#calls.run(runId, 'putBlob', request);
    if (answer === 'unknown') throw missingRun(runId);
    if (answer === 'changed') throw changedRun(runId);
  }

  async readBlob(runId: string, digest: string, offset: number, length: number) {
    const text = await this.#calls.run(runId, 'readBlob', { digest });
    return text === null ? undefined : new TextEncoder().encode(text).slice(offset, offset + length);
  }

  async chain(runId: string): Promise<RunLink[]> {
    const records = new Map<string, RunRecord>();
    for (let next: string | undefined = runId; next !== undefined && !records.has(next); ) {
      const record: RunRecord | undefined = await this.get(next);
      if (record !== undefined) records.set(next, record);
      next = record?.continues;
    }
    return followChain(runId, id => records.get(id));
  }

  async delete(runIds: string | readonly string[], options: DeleteOptions = {}): Promise<string[]> {
    return await deleteRuns(this.#calls, runIds, options);
  }

  async prune(options: PruneOptions): Promise<string[]> {
    return await pruneRunsOf(this.#calls, this, options);
  }

  async redact(runId: string, options: RedactOptions): Promise<Redacted> {
    return await redactIn(this, runId, options);
  }

  async rewrite(
    runId: string,
    { entries, event, isDead, now, ...redaction }: Redaction,
  ): Promise<Exclude<AppendResult, { type: 'superseded' }>> {
    const kept = entries.map(({ seq, event: own, stateHash }) => ({
      seq,
      event: toEventJson(own),
      ...omitUndefined({ stateHash }),
    }));
    const first = entries.find(({ seq }) => seq === 1)?.event;
    const record = await this.get(runId);
    assertUndriven(runId, record && leaseOf(record), { now, isDead }, 'redacted');
    const answer = await this.#calls.run(runId, 'rewrite', {
      ...redaction,
      entries: kept,
      now,
      ...(event && { event: toEventJson(event) }),
      ...(first?.type === 'run.started' && { title: titleOf(first) }),
    });
    if (answer.type === 'unknown') throw missingRun(runId);
    return answer.type === 'conflict' ? { type: 'conflict' } : answer;
  }

  /** Ends this store's waiting requests, and rejects later calls. Does not change Restate. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const refuse = () => Promise.reject(closedStore());
    this.#calls = { run: refuse, thread: refuse, text: refuse, query: refuse };
  }

  #see(runId: string, seq: number): void {
    const seen = this.#seen.get(runId);
    if (seen !== undefined && seq > seen) this.#seen.set(runId, seq);
  }
}

type Listed = RunMeta & { words: readonly string[] };

const LISTED: ListedRuns<Listed> = {
  recordOf: describe,
  progressOf: describe,
  wordsOf: ({ words }) => words,
};

function describe({ record, quarantine }: RunMeta): RunRecord {
  if (quarantine === undefined) return record;
  return {
    ...record,
    status: 'waiting',
    state: 'quarantined',
    why: `${quarantine.code}: ${quarantine.message}`,
  };
}

function toEventJson(event: RunEvent): JsonValue {
  return JSON.parse(encodeEvent(event));
}

function withHash(entry: JournalEntry, stateHash: string | undefined): JournalEntry {
  return stateHash === undefined ? entry : { ...entry, stateHash };
}

function oneObject(runId: string): EngineError {
  const message = `Run "${runId}" was not created: on Restate each run is an object of its own, so one commit cannot change several.`;
  return new EngineError('refused', message, { runId });
}

/** The size limit of one request, in characters, because Restate limits the size of a response. */
const MOST_CHARS = 1024 * 1024;

/** Entries as the object of a run keeps them. `end`: the seq of the last entry of the journal, if these reach it. */
type KeptEntries = { entries: NonNullable<ReadAnswer>['entries']; end?: number };

/** Reads again if the run is redacted meanwhile. Throws `run-unknown`, and like `Store.read` for a page with `redactions`. */
async function readEntries(
  calls: RestateCalls,
  runId: string,
  after: number,
  page: Page,
): Promise<KeptEntries> {
  for (;;) {
    try {
      return await readOnce(calls, runId, after, page);
    } catch (error) {
      if (!isChangedRun(error) || page.redactions !== undefined) throw error;
    }
  }
}

async function readOnce(calls: RestateCalls, runId: string, after: number, page: Page): Promise<KeptEntries> {
  const entries: KeptEntries['entries'] = [];
  let { redactions } = page;
  for (let size = 0, from = after; ; ) {
    const most = Math.min(page.entries - entries.length, Number.MAX_SAFE_INTEGER);
    const answer = await calls.run(runId, 'read', { after: from, entries: most, chars: MOST_CHARS });
    if (answer === null) throw missingRun(runId);
    redactions ??= answer.redactions;
    assertUnredacted(runId, answer, redactions);
    for (const entry of answer.entries) {
      entries.push(entry);
      size += JSON.stringify(entry.event).length;
      if (entries.length >= page.entries || size >= page.chars) return { entries };
    }
    from = answer.entries.at(-1)?.seq ?? answer.last;
    if (from >= answer.last) return { entries, end: answer.last };
  }
}

const AGAIN_MS = 100;

/** Implements `Store.delete`: the top run only if it still ends where it was read; it deletes the others. */
async function deleteRuns(
  calls: RestateCalls,
  runIds: string | readonly string[],
  options: DeleteOptions,
): Promise<string[]> {
  for (;;) {
    const kinship = await readKinship(calls);
    const doomed = planDeletion(kinship, runIds, options);
    if (await remove(calls, kinship, doomed)) return doomed;
    await sleep(systemHost, AGAIN_MS);
  }
}

/** Implements `Store.prune`. Each run is deleted like those of `deleteRun`, with its child runs. */
async function pruneRunsOf(
  calls: RestateCalls,
  store: Pick<Store, 'list'>,
  options: PruneOptions,
): Promise<string[]> {
  return await pruneRuns(store, options, async (runIds, gone) => {
    const kinship = await readKinship(calls);
    const doomed = planPruning(kinship, runIds, gone, options);
    if (options.dryRun === true) return doomed;
    const removed: string[] = [];
    for (const family of familiesOf(kinship, doomed)) {
      // The runs that follow may be ones that a run which changed continues: a later call deletes them.
      if (!(await remove(calls, kinship, family))) break;
      removed.push(...family);
    }
    return removed;
  });
}

async function remove(calls: RestateCalls, kinship: Kinship, doomed: readonly string[]): Promise<boolean> {
  const [top = '', ...others] = doomed;
  const seq = kinship.find(top)?.seq ?? 0;
  return await calls.run(top, 'remove', { seq, others });
}

function familiesOf(kinship: Kinship, doomed: readonly string[]): string[][] {
  const all = new Set(doomed);
  const below = (runId: string): string[] => [
    runId,
    ...kinship
      .childrenOf(runId)
      .filter(id => all.has(id))
      .flatMap(below),
  ];
  return doomed.filter(id => !all.has(kinship.find(id)?.parent?.runId ?? '')).map(below);
}

/** Returns what Restate stores about each run, in no order. One SQL query reads all runs. */
async function readMetas(calls: RestateCalls): Promise<RunMeta[]> {
  const rows = await calls.query(
    `select value_utf8 from state where service_name = '${RUN_OBJECT}' and key = 'meta'`,
  );
  return rows.map(({ value_utf8 }) => JSON.parse(String(value_utf8)));
}

/** Reads the words of all runs too if the query looks for some. */
async function readListed(calls: RestateCalls, { text }: { text?: string | undefined }): Promise<Listed[]> {
  const metas = await readMetas(calls);
  if (text === undefined) return metas.map(meta => ({ ...meta, words: [] }));
  const rows = await calls.query(
    `select service_key, key, value_utf8 from state where service_name = '${RUN_OBJECT}' and key like '${WORDS}%'`,
  );
  const blockOf = ({ key }: (typeof rows)[number]): number => Number(String(key).slice(WORDS.length));
  const byRun = Map.groupBy(
    rows.sort((one, other) => blockOf(one) - blockOf(other)),
    ({ service_key }) => service_key,
  );
  return metas.map(meta => {
    const blocks = byRun.get(meta.record.runId) ?? [];
    const words = blocks.flatMap(({ value_utf8 }) => JSON.parse(String(value_utf8)) as string[]);
    return { ...meta, words: addWords(words.slice(0, -1), words.at(-1) ?? '') };
  });
}

async function readKinship(calls: RestateCalls): Promise<Kinship> {
  const records = (await readMetas(calls)).map(({ record }) => record);
  const byId = new Map(records.map(record => [record.runId, record]));
  const children = Map.groupBy(records, ({ parent }) => parent?.runId);
  const continuations = Map.groupBy(records, ({ continues }) => continues);
  const idsOf = (found: readonly { runId: string }[] = []) => found.map(({ runId }) => runId);
  // Only child runs are awaited.
  const open = records.some(({ parent }) => parent !== undefined) ? records.filter(isOpen) : [];
  const awaited = open.length === 0 ? new Map() : await readAwaited(calls);
  return {
    find: runId => byId.get(runId),
    childrenOf: runId => idsOf(children.get(runId)),
    continuationsOf: runId => idsOf(continuations.get(runId)),
    waiting: () => open.map(({ runId }) => ({ runId, awaited: awaited.get(runId) ?? new Set() })),
  };
}

async function readAwaited(calls: RestateCalls): Promise<Map<string, ReadonlySet<string>>> {
  const rows = await calls.query(
    `select service_key, key, value_utf8 from state where service_name = '${RUN_OBJECT}' and key like 'entry %'
     and (${AWAITING.map(part => `value_utf8 like '%${part}%'`).join(' or ')})`,
  );
  const entries = rows.map(({ service_key, key, value_utf8 }) => ({
    runId: String(service_key),
    seq: Number(String(key).slice('entry '.length)),
    event: (JSON.parse(String(value_utf8)) as KeptEntry).event,
  }));
  entries.sort((one, other) => one.seq - other.seq);
  return new Map(
    [...Map.groupBy(entries, ({ runId }) => runId)].map(([runId, own]) => [
      runId,
      findAwaited(own.map(({ event }) => JSON.stringify(event))),
    ]),
  );
}
