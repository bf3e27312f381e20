import type { ObjectContext } from '@restatedev/restate-sdk';
import type { JsonValue } from '../../protocol/json.ts';
import type { Standing } from '../../protocol/store.ts';
import { json } from './json-serde.ts';
import {
  type AppendRequest,
  DRIVE_SERVICE,
  type KeptEntry,
  RUN_OBJECT,
  type RunMeta,
  type RunRequests,
  type Tombstone,
  type Watcher,
} from './requests.ts';

/** The members of Restate's context that the handlers use. */
export type RunContext = Pick<
  ObjectContext,
  'key' | 'get' | 'set' | 'clear' | 'clearAll' | 'genericSend' | 'genericCall' | 'date' | 'resolveAwakeable'
>;

type Input<Name extends keyof RunRequests> = RunRequests[Name]['input'];

/** Returns the meta of a new run. `tombstone`: of a deleted run with the same id. */
export function newMeta(record: RunMeta['record'], tombstone: Tombstone | null): RunMeta {
  return {
    record: { ...record, epoch: tombstone?.epoch ?? 0 },
    base: 0,
    deliveries: tombstone?.deliveries ?? 0,
    working: null,
    isCalledAgain: false,
    lastInput: 0,
    watchers: [],
    children: [],
  };
}

/** The meta of a run after a handler, and the messages to send once it is stored. */
export type Change = { meta: RunMeta; sends: ((ctx: RunContext) => void)[] };

/** Returns a change without messages. */
export function changeOf(meta: RunMeta): Change {
  return { meta, sends: [] };
}

/** Notifies the watchers whose event has occurred, stores the meta, and sends the messages. */
export function commit(ctx: RunContext, change: Change): void {
  const { meta, sends } = change;
  for (const watcher of meta.watchers) if (isMet(meta, watcher)) resolve(change, watcher);
  meta.watchers = meta.watchers.filter(watcher => !isMet(meta, watcher));
  ctx.set('meta', meta);
  for (const send of sends) send(ctx);
}

/** Stores the entries of an append and applies their consequences. */
export async function take(ctx: RunContext, change: Change, request: AppendRequest): Promise<void> {
  const { meta } = change;
  const { epoch, events, at, standing } = request;
  const wasEnded = hasEnded(meta);
  keep(ctx, meta, events, standing.stateHash);
  if (events.length > 0) meta.record.updatedAt = at;
  if (epoch === undefined) meta.lastInput = meta.record.seq;
  Object.assign(meta.record, standing.progress);
  await takeStanding(ctx, change, standing);
  if (wasEnded || !hasEnded(meta)) return;
  if (standing.wakes !== undefined) callRun(change, standing.wakes, 'call', { reason: 'child-ended' });
  for (const child of meta.children) callRun(change, child, 'call', { reason: 'parent-ended' });
}

/** Stores entries. The state's hash is stored with the last entry. */
export function keep(ctx: RunContext, meta: RunMeta, events: readonly JsonValue[], stateHash?: string): void {
  for (const [index, event] of events.entries()) {
    const isLast = index === events.length - 1;
    meta.record.seq += 1;
    const entry: KeptEntry = isLast && stateHash !== undefined ? { event, stateHash } : { event };
    ctx.set(`entry ${meta.record.seq}`, entry);
  }
}

/** Delivers the run if it is running; schedules a wake-up if it rests until a time. */
export async function takeStanding(
  ctx: RunContext,
  change: Change,
  { status, wakeAt }: Standing,
): Promise<void> {
  const { record, working } = change.meta;
  record.status = status;
  if (status === 'running' && working === null) deliver(ctx, change);
  if (wakeAt === undefined) delete record.wakeAt;
  else await wakeBy(ctx, change, wakeAt);
}

/** Schedules a wake-up at `wakeAt` (ms since the epoch), unless one is already scheduled. */
export async function wakeBy(ctx: RunContext, change: Change, wakeAt: number): Promise<void> {
  const { record } = change.meta;
  if (wakeAt === record.wakeAt) return;
  record.wakeAt = wakeAt;
  callRun(change, ctx.key, 'wake', { at: wakeAt }, Math.max(0, wakeAt - (await ctx.date.now())));
}

/** Delivers the run now, or again after the delivery in progress. */
export function deliver({ key }: RunContext, { meta, sends }: Change): void {
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

/** Sends a request to the object of another run, or a delayed request to this one. */
export function callRun<Name extends keyof RunRequests>(
  { sends }: Change,
  runId: string,
  method: Name,
  parameter: Input<Name>,
  delay = 0,
): void {
  const target = { service: RUN_OBJECT, key: runId, method };
  sends.push(ctx => ctx.genericSend({ ...target, parameter, delay, inputSerde: json() }));
}

/** Resolves a watcher's awakeable. */
export function resolve({ sends }: Change, { awakeable }: Watcher): void {
  sends.push(ctx => ctx.resolveAwakeable(awakeable, true));
}

function isMet(meta: RunMeta, { reason }: Watcher): boolean {
  if (hasEnded(meta)) return true;
  if (reason.type === 'input') return meta.lastInput > reason.after;
  return meta.record.status === 'waiting' || meta.quarantine !== undefined;
}

/** Records that no process drives the run. */
export function dropOwner({ record }: RunMeta): void {
  delete record.owner;
  delete record.leaseUntil;
}

/** Whether the run has finished, failed or been cancelled. */
export function hasEnded({ record: { status } }: RunMeta): boolean {
  return status !== 'running' && status !== 'waiting';
}
