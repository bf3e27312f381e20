import type { ObjectContext, ObjectSharedContext } from '@restatedev/restate-sdk';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { MOST_WORDS } from '../../protocol/listing/words.ts';
import type { Standing } from '../../protocol/store.ts';
import { recordClaim } from '../../stores/lease.ts';
import { reopens, threadKeyOf, unknownProgress } from '../../stores/run-record.ts';
import {
  type AppendRequest,
  DRIVE_SERVICE,
  json,
  type KeptEntry,
  RUN_OBJECT,
  type RunMeta,
  type RunRequests,
  TEXT_OBJECT,
  THREAD_OBJECT,
  type Tombstone,
  type Watcher,
  WORDS,
} from './requests.ts';

type SharedRunContext = Pick<ObjectSharedContext, 'key' | 'get' | 'stateKeys' | 'genericSend' | 'awakeable'>;

type Input<Name extends keyof RunRequests> = RunRequests[Name]['input'];
type Handlers<Ctx, Name extends keyof RunRequests> = {
  [Own in Name]: (ctx: Ctx, input: Input<Own>) => Promise<RunRequests[Own]['output']>;
};
type SharedName = 'get' | 'isCurrent' | 'read' | 'loadSnapshot' | 'readBlob' | 'listBlobs' | 'changed';

/** The most entries of one read, because the invocation stores each entry as a value. */
const MOST_READ = 128;
/** The wait before the next wake-up if the run still rests until the same time, in ms. */
const LATE_MS = 5_000;
/** The most watchers of a run. A further watcher replaces the oldest, which is resolved early. */
const MOST_WATCHERS = 64;
const BLOB = 'blob ';
/** After so many characters the words of further appends begin another block. */
const BLOCK_OF_WORDS = 256;
/** As many blocks as can hold the words that are kept, and the one that is not full. */
const BLOCKS_OF_WORDS = MOST_WORDS / BLOCK_OF_WORDS + 1;

/**
 * The journal of a run as a virtual object: the only writer of its entries.
 *
 * O1 An append is one invocation. Its entries are visible once `meta` includes them, and messages are sent after that,
 *    so concurrent readers see all of an append or nothing. The size of a write depends on its events, not on the
 *    length of the run.
 * O2 A driver appends under the epoch of its claim, and only the driver of the current delivery may claim. So a second
 *    delivery of the same work, in any process, fences the first.
 * O3 At most one delivery is in progress. A request for another delivery is remembered until it ends.
 * O4 A run is delivered when an append leaves it running, at the time until which it rests, when one of its child runs
 *    or its parent ends, and when a person resumes it. A quarantined run is delivered again after an input that lets
 *    it run.
 * O5 A handler depends only on its input, the run's state and Restate's clock, so that a replay has the same effects.
 * O6 A deleted run leaves only two numbers. A later run with its id counts on from them, so that drivers and messages
 *    of the deleted run are refused.
 * O7 An exclusive handler waits only for shared handlers of other objects, or, in `remove`, for those that wait for
 *    nothing. So objects do not wait for each other in a circle. The object of a thread waits for those of its runs.
 */
export const runHandlers: Handlers<RunContext, Exclude<keyof RunRequests, SharedName>> = {
  async create(ctx, request) {
    const { events, record, wakeAt, blobs = [], source, words } = request;
    if ((await ctx.get<RunMeta>('meta')) !== null) return { type: 'exists' };
    const change = changeOf(newMeta({ ...record, seq: 0 }, await ctx.get<Tombstone>('tombstone')));
    keepWords(ctx, change.meta, [], words);
    const copied = record.forkOf === undefined ? [] : await readBlobs(ctx, record.forkOf.runId);
    if (source !== undefined) {
      const found = await callAndWait(ctx, source.runId, 'get', undefined);
      if (found?.record.redactions !== source.redactions) return { type: 'changed' };
    }
    for (const { digest, text } of [...copied, ...blobs]) ctx.set(`${BLOB}${digest}`, text);
    keep(ctx, change.meta, events);
    await takeStanding(ctx, change, { status: record.status, ...omitUndefined({ wakeAt }) });
    if (record.parent !== undefined) callRun(change, record.parent.runId, 'addChild', { runId: ctx.key });
    return commit(ctx, change, { type: 'created', seq: change.meta.record.seq });
  },

  async adopt(ctx, { state, seq, progress, wakeAt, ...adopted }) {
    if ((await ctx.get<RunMeta>('meta')) !== null) return { type: 'exists' };
    const record = {
      ...unknownProgress(adopted.status),
      ...progress,
      ...adopted,
      updatedAt: adopted.createdAt,
    };
    const meta = newMeta({ ...record, seq, epoch: 0, redactions: 0 }, await ctx.get<Tombstone>('tombstone'));
    const change = changeOf({ ...meta, base: seq });
    ctx.set('snapshot', { seq, state });
    ctx.set('snapshotSeq', seq);
    await takeStanding(ctx, change, { status: adopted.status, ...omitUndefined({ wakeAt }) });
    return commit(ctx, change, { type: 'adopted' });
  },

  async append(ctx, request) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null) return { type: 'unknown' };
    const { seq, epoch, redactions } = meta.record;
    if (request.epoch !== undefined && request.epoch !== epoch) return { type: 'superseded' };
    if (request.after !== seq || request.redactions !== redactions) return { type: 'conflict', seq };
    const { status } = meta.record;
    if (reopens(status, request.events, request.standing.status)) return { type: 'ended', status };
    const change = changeOf(meta);
    await take(ctx, change, request);
    return commit(ctx, change, { type: 'appended', seq: meta.record.seq });
  },

  async claim(ctx, { delivery, owner, now, unlessEnded }) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null) return { type: 'unknown' };
    const { record } = meta;
    if (unlessEnded && hasEnded(meta)) return { type: 'ended' };
    if (delivery !== meta.working) return { type: 'held', ...omitUndefined({ owner: record.owner }) };
    const replaced = record.owner && { owner: record.owner, until: 0 };
    record.epoch += 1;
    keep(ctx, meta, [recordClaim({ owner, now, leaseMs: 0, isDead: () => false }, record.epoch, replaced)]);
    Object.assign(record, { owner, leaseUntil: Number.MAX_SAFE_INTEGER, updatedAt: now });
    meta.lastInput = record.seq;
    return commit(ctx, changeOf(meta), { type: 'claimed', epoch: record.epoch, seq: record.seq });
  },

  async release(ctx, { epoch, wakeAt }) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta?.record.epoch !== epoch) return meta !== null;
    const change = changeOf(meta);
    dropOwner(meta);
    if (wakeAt !== undefined) await wakeBy(ctx, change, Math.min(wakeAt, meta.record.wakeAt ?? wakeAt));
    return commit(ctx, change, true);
  },

  /** With `quarantine`, the run is not delivered again unless `call` requested it during the delivery. */
  async left(ctx, { delivery, quarantine }) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null || meta.working !== delivery) return;
    const change = changeOf(meta);
    const isWanted = meta.isCalledAgain || (quarantine === undefined && meta.record.status === 'running');
    Object.assign(meta, { working: null, isCalledAgain: false });
    dropOwner(meta);
    if (isWanted) deliver(ctx, change);
    else if (quarantine !== undefined) meta.quarantine = quarantine;
    commit(ctx, change, undefined);
  },

  /** Delivers the run at the time until which it rests. Does nothing if that time has changed. */
  async wake(ctx, { at }) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null || meta.record.wakeAt !== at || meta.quarantine !== undefined) return;
    const change = changeOf(meta);
    deliver(ctx, change);
    // Wakes the run once more later, because the clock of the worker may be behind.
    callRun(change, ctx.key, 'wake', { at }, LATE_MS);
    commit(ctx, change, undefined);
  },

  /** Delivers the run for a reason other than an entry. Returns false if the run has ended. */
  async call(ctx, { reason, lost }) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null || hasEnded(meta)) return false;
    // A killed delivery does not notify the object, so a resume clears it.
    const isLost = meta.record.owner === undefined || (lost !== undefined && lost === meta.working);
    if (reason === 'resumed' && isLost) {
      meta.working = null;
      dropOwner(meta);
    }
    const change = changeOf(meta);
    deliver(ctx, change);
    return commit(ctx, change, true);
  },

  async addChild(ctx, { runId }) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null) return;
    const change = changeOf(meta);
    if (hasEnded(meta)) callRun(change, runId, 'call', { reason: 'parent-ended' });
    else meta.children = [...meta.children, runId];
    commit(ctx, change, undefined);
  },

  /** Deletes the run, and then the others, in any state. Their objects may be this one's parent or children. */
  async remove(ctx, { seq, others }) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null || (seq !== undefined && seq !== meta.record.seq)) return false;
    const change = changeOf(meta);
    for (const watcher of meta.watchers) resolve(change, watcher);
    const { deliveries, record } = meta;
    ctx.clearAll();
    ctx.set('tombstone', { deliveries, epoch: record.epoch } satisfies Tombstone);
    for (const send of change.sends) send(ctx);
    clearText(ctx, 0);
    leaveThread(ctx, record);
    for (const runId of others) await callAndWait(ctx, runId, 'remove', { others: [] });
    return true;
  },

  /** Replaces entries and everything that was derived from them. No driver has claimed the run since entry `after`. */
  async rewrite(ctx, request) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null) return { type: 'unknown' };
    const { after, redactions, entries, blobs, state, progress, words, title, event, now } = request;
    const { record } = meta;
    if (after !== record.seq || redactions !== record.redactions)
      return { type: 'conflict', seq: record.seq };
    const change = changeOf(meta);
    const wakeAt = record.owner === undefined ? undefined : Math.min(now, record.wakeAt ?? now);
    dropOwner(meta);
    for (const { seq, ...entry } of entries) ctx.set(`entry ${seq}`, entry);
    for (let block = oldestBlock(meta); block <= meta.wordsBlock; block++) ctx.clear(`${WORDS}${block}`);
    keepWords(ctx, meta, [], words);
    Object.assign(record, progress, { redactions: redactions + 1 }, omitUndefined({ title }));
    if (event !== undefined) {
      keep(ctx, meta, [event]);
      Object.assign(record, { updatedAt: now });
    }
    ctx.set('snapshot', { seq: record.seq, state });
    ctx.set('snapshotSeq', record.seq);
    for (const digest of blobs) ctx.clear(`${BLOB}${digest}`);
    clearText(ctx, record.redactions);
    if (wakeAt !== undefined && !hasEnded(meta)) await wakeBy(ctx, change, wakeAt);
    return commit(ctx, change, { type: 'appended', seq: record.seq });
  },

  async saveSnapshot(ctx, request) {
    const { redactions, ...snapshot } = request;
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null) return false;
    if (meta.record.redactions !== redactions) return true;
    const known = await ctx.get<number>('snapshotSeq');
    if (known !== null && known > snapshot.seq) return true;
    ctx.set('snapshot', snapshot);
    ctx.set('snapshotSeq', snapshot.seq);
    return true;
  },

  async leavePlace(ctx) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null) return;
    delete meta.record.place;
    ctx.set('meta', meta);
  },

  async putBlob(ctx, { digest, text, redactions }) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null) return 'unknown';
    if (redactions !== undefined && redactions !== meta.record.redactions) return 'changed';
    ctx.set(`${BLOB}${digest}`, text);
    return 'stored';
  },

  async watch(ctx, watcher) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null) {
      ctx.resolveAwakeable(watcher.awakeable, true);
      return;
    }
    const change = changeOf(meta);
    const [first, ...rest] = meta.watchers;
    const isFull = meta.watchers.length >= MOST_WATCHERS;
    if (isFull && first !== undefined) resolve(change, first);
    meta.watchers = [...(isFull ? rest : meta.watchers), watcher];
    commit(ctx, change, undefined);
  },
};

export const sharedRunHandlers: Handlers<SharedRunContext, SharedName> = {
  async get(ctx) {
    return await ctx.get<RunMeta>('meta');
  },

  async isCurrent(ctx, { epoch }) {
    const meta = await ctx.get<RunMeta>('meta');
    return meta?.record.epoch === epoch && meta.record.owner !== undefined;
  },

  async read(ctx, { after, entries, chars }) {
    const meta = await ctx.get<RunMeta>('meta');
    if (meta === null) return null;
    const { base } = meta;
    const { seq: last, redactions } = meta.record;
    const from = Math.max(base, after);
    const taken: (KeptEntry & { seq: number })[] = [];
    const most = Math.min(last, from + Math.min(entries, MOST_READ));
    for (let seq = from + 1, size = 0; seq <= most && size < chars; seq += 1) {
      const kept = await ctx.get<KeptEntry>(`entry ${seq}`);
      taken.push({ seq, event: null, ...kept });
      size += JSON.stringify(kept).length;
    }
    return { base, last, redactions, entries: taken };
  },

  async loadSnapshot(ctx) {
    return await ctx.get('snapshot');
  },

  async readBlob(ctx, { digest }) {
    return await ctx.get(`${BLOB}${digest}`);
  },

  async listBlobs(ctx) {
    return (await ctx.stateKeys()).filter(key => key.startsWith(BLOB)).map(key => key.slice(BLOB.length));
  },

  /** Waits for an input, or until the run rests or has ended. Returns false after `withinMs`. */
  async changed(ctx, { reason, withinMs }) {
    const { id, promise } = ctx.awakeable<boolean>();
    const parameter = { awakeable: id, reason };
    ctx.genericSend({ service: RUN_OBJECT, key: ctx.key, method: 'watch', parameter, inputSerde: json() });
    try {
      return await promise.orTimeout(withinMs);
    } catch (error) {
      if (error instanceof Error && error.name === 'TimeoutError') return false;
      throw error;
    }
  },
};

async function readBlobs(ctx: RunContext, from: string): Promise<{ digest: string; text: string }[]> {
  const blobs: { digest: string; text: string }[] = [];
  for (const digest of await callAndWait(ctx, from, 'listBlobs', undefined)) {
    const text = await callAndWait(ctx, from, 'readBlob', { digest });
    if (text !== null) blobs.push({ digest, text });
  }
  return blobs;
}

async function callAndWait<Name extends keyof RunRequests>(
  ctx: RunContext,
  key: string,
  method: Name,
  parameter: Input<Name>,
): Promise<RunRequests[Name]['output']> {
  const serdes = { inputSerde: json<Input<Name>>(), outputSerde: json<RunRequests[Name]['output']>() };
  return await ctx.genericCall({ service: RUN_OBJECT, key, method, parameter, ...serdes });
}

function leaveThread(ctx: RunContext, record: RunMeta['record']): void {
  const { runId, place } = record;
  const key = threadKeyOf(record);
  if (key === undefined || place === undefined) return;
  const parameter = { place, runId };
  ctx.genericSend({ service: THREAD_OBJECT, key, method: 'left', parameter, inputSerde: json() });
}

function clearText(ctx: RunContext, redactions: number): void {
  const parameter = { redactions };
  ctx.genericSend({ service: TEXT_OBJECT, key: ctx.key, method: 'clear', parameter, inputSerde: json() });
}

type RunContext = Pick<
  ObjectContext,
  'key' | 'get' | 'set' | 'clear' | 'clearAll' | 'genericSend' | 'genericCall' | 'date' | 'resolveAwakeable'
>;

function newMeta(record: RunMeta['record'], tombstone: Tombstone | null): RunMeta {
  return {
    record: { ...record, epoch: tombstone?.epoch ?? 0 },
    base: 0,
    deliveries: tombstone?.deliveries ?? 0,
    working: null,
    isCalledAgain: false,
    lastInput: 0,
    watchers: [],
    children: [],
    wordsBlock: 0,
  };
}

type Change = { meta: RunMeta; sends: ((ctx: RunContext) => void)[] };

function changeOf(meta: RunMeta): Change {
  return { meta, sends: [] };
}

function commit<Answer>(ctx: RunContext, change: Change, answer: Answer): Answer {
  const { meta, sends } = change;
  for (const watcher of meta.watchers) if (isMet(meta, watcher)) resolve(change, watcher);
  meta.watchers = meta.watchers.filter(watcher => !isMet(meta, watcher));
  ctx.set('meta', meta);
  for (const send of sends) send(ctx);
  return answer;
}

async function take(ctx: RunContext, change: Change, request: AppendRequest): Promise<void> {
  const { meta } = change;
  const { epoch, events, at, standing } = request;
  const wasEnded = hasEnded(meta);
  keep(ctx, meta, events, standing.stateHash);
  if (events.length > 0) meta.record.updatedAt = at;
  if (epoch === undefined) meta.lastInput = meta.record.seq;
  Object.assign(meta.record, standing.progress);
  if (standing.words !== undefined && events.length > 0)
    keepWords(ctx, meta, (await ctx.get<string[]>(`${WORDS}${meta.wordsBlock}`)) ?? [], standing.words);
  await takeStanding(ctx, change, standing);
  if (wasEnded || !hasEnded(meta)) return;
  if (standing.wakes !== undefined) callRun(change, standing.wakes, 'call', { reason: 'child-ended' });
  for (const child of meta.children) callRun(change, child, 'call', { reason: 'parent-ended' });
}

function keep(ctx: RunContext, meta: RunMeta, events: readonly JsonValue[], stateHash?: string): void {
  for (const [index, event] of events.entries()) {
    const isLast = index === events.length - 1;
    meta.record.seq += 1;
    const entry: KeptEntry = isLast && stateHash !== undefined ? { event, stateHash } : { event };
    ctx.set(`entry ${meta.record.seq}`, entry);
  }
}

/** Adds words to the last block, which has `kept`, or begins the next and drops the oldest. */
function keepWords(ctx: RunContext, meta: RunMeta, kept: readonly string[], words = ''): void {
  if (words === '') return;
  const isFull = kept.reduce((sum, text) => sum + text.length, 0) >= BLOCK_OF_WORDS;
  if (isFull) {
    meta.wordsBlock += 1;
    ctx.clear(`${WORDS}${oldestBlock(meta) - 1}`);
  }
  ctx.set(`${WORDS}${meta.wordsBlock}`, isFull ? [words] : [...kept, words]);
}

function oldestBlock({ wordsBlock }: RunMeta): number {
  return Math.max(0, wordsBlock - BLOCKS_OF_WORDS + 1);
}

async function takeStanding(ctx: RunContext, change: Change, { status, wakeAt }: Standing): Promise<void> {
  const { record, working } = change.meta;
  record.status = status;
  if (status === 'running' && working === null) deliver(ctx, change);
  if (wakeAt === undefined) delete record.wakeAt;
  else await wakeBy(ctx, change, wakeAt);
}

async function wakeBy(ctx: RunContext, change: Change, wakeAt: number): Promise<void> {
  const { record } = change.meta;
  if (wakeAt === record.wakeAt) return;
  record.wakeAt = wakeAt;
  callRun(change, ctx.key, 'wake', { at: wakeAt }, Math.max(0, wakeAt - (await ctx.date.now())));
}

function deliver({ key }: RunContext, { meta, sends }: Change): void {
  if (meta.working !== null) {
    meta.isCalledAgain = true;
    return;
  }
  delete meta.quarantine;
  meta.deliveries += 1;
  meta.working = meta.deliveries;
  const parameter = { runId: key, delivery: meta.deliveries };
  sends.push(ctx =>
    ctx.genericSend({ service: DRIVE_SERVICE, method: 'drive', parameter, inputSerde: json() }),
  );
}

function callRun<Name extends keyof RunRequests>(
  { sends }: Change,
  runId: string,
  method: Name,
  parameter: Input<Name>,
  delay = 0,
): void {
  const target = { service: RUN_OBJECT, key: runId, method };
  sends.push(ctx => ctx.genericSend({ ...target, parameter, delay, inputSerde: json() }));
}

function resolve({ sends }: Change, { awakeable }: Watcher): void {
  sends.push(ctx => ctx.resolveAwakeable(awakeable, true));
}

function isMet(meta: RunMeta, { reason }: Watcher): boolean {
  if (hasEnded(meta)) return true;
  if (reason.type === 'input') return meta.lastInput > reason.after;
  return meta.record.status === 'waiting' || meta.quarantine !== undefined;
}

function dropOwner({ record }: RunMeta): void {
  delete record.owner;
  delete record.leaseUntil;
}

function hasEnded({ record: { status } }: RunMeta): boolean {
  return status !== 'running' && status !== 'waiting';
}
