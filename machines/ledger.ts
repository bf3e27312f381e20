import type { Deed, Inheritance, Ledger, QualifiedCall } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { PastCall } from '../protocol/rule.ts';
import type { BackgroundWork, Call, CallResult, CallStatus, Context } from './context.ts';

/**
 * What was done: the `once` calls of a run, and of the runs that it continues; for rules, also every call that was
 * begun, in its history.
 *
 * G1 Each `once` call that settled is in the ledger, unless it was refused before it began.
 * G2 A deed never leaves the ledger. A compaction turns `fresh` ones into `past` ones.
 * G3 A call that equals a past deed is gated, even if its tool needs no approval, unless its tool is `repeatable`. A
 *    failure is not a deed that an equal call would repeat.
 * G4 The history of a run that keeps one has each call that was begun and has settled, in the order of their results, and
 *    what a provider ran. Neither an edit nor a compaction takes one out of it.
 */

/** Adds the call to the ledger if its result says what became of it. */
export function recordDeed(context: Context, call: Call | undefined, { isError }: CallResult): Context {
  if (call === undefined || call.sideEffect !== 'once' || call.status === 'settled') return context;
  if (isError && !wasBegun(call)) return context;
  return addDeed(context, deedOf(call, isError ? 'failed' : 'done', context.now));
}

/** Adds a call that settles to the history. */
export function recordCall(context: Context, call: Call | undefined, { isError }: CallResult): Context {
  if (context.history === undefined || call === undefined || call.status === 'settled') return context;
  if (!wasBegun(call)) return context;
  return { ...context, history: [...context.history, pastCall(call, isError ? 'failed' : 'done')] };
}

/** Adds a call whose work continues in the background to the ledger; to the history only with its outcome. */
export function recordBegun(context: Context, call: Call): Context {
  return call.sideEffect === 'once' ? addDeed(context, deedOf(call, 'unknown', context.now)) : context;
}

/** What became of background work. A failure that a compaction has seen as unknown is no longer a deed. */
export function recordOutcome(context: Context, work: BackgroundWork, isError: boolean): Context {
  const { callId, digest, readDigest = digest } = work;
  const outcome: Deed['outcome'] = isError ? 'failed' : 'done';
  const { ledger, now, history } = context;
  const isIt = (deed: Deed) => deed.callId === callId && deed.outcome === 'unknown';
  const fresh = ledger.fresh.map(deed => (isIt(deed) ? { ...deed, outcome, at: now } : deed));
  const key = deedKeyOf(readDigest);
  const isPast = Object.hasOwn(ledger.past, key) && ledger.past[key]?.outcome === 'unknown';
  const { [key]: _, ...others } = ledger.past;
  const settled = isError ? others : { ...others, [key]: { outcome: 'done' as const, at: now } };
  const past = isPast && !ledger.fresh.some(isIt) ? settled : ledger.past;
  return {
    ...context,
    ledger: { ...ledger, fresh, past },
    ...(history !== undefined && { history: [...history, pastCall(work, outcome)] }),
  };
}

/** Adds what the provider ran in a turn to the history. */
export function recordItems(context: Context, items: readonly Item[]): Context {
  const ran = context.history === undefined ? [] : providerCalls(items);
  return ran.length === 0 ? context : { ...context, history: [...(context.history ?? []), ...ran] };
}

export function pastCall(
  { callId, name, input, tags }: Pick<Call, 'callId' | 'name' | 'input' | 'tags'>,
  outcome: PastCall['outcome'],
): PastCall {
  return { callId, name, input, outcome, ...omitUndefined({ tags }) };
}

export function providerCalls(items: readonly Item[]): PastCall[] {
  return items.flatMap((item): PastCall[] =>
    item.type === 'provider_item'
      ? [{ callId: item.id ?? '', name: item.kind, input: null, outcome: 'done' }]
      : [],
  );
}

export const UNBEGUN: ReadonlySet<CallStatus> = new Set(['gated', 'ready', 'queued', 'asking']);

/** A call in doubt that is to run once more may have been done by its first attempt. */
export function wasBegun({ status, attempt }: Pick<Call, 'status' | 'attempt'>): boolean {
  return attempt > 0 || !UNBEGUN.has(status);
}

/** Says which deeds are equal. */
function digestOfDeed({ digest, readDigest = digest }: QualifiedCall): string {
  return readDigest;
}

function deedOf(call: Call, outcome: Deed['outcome'], at: number): Deed {
  const { callId, name, input, edited } = call;
  return {
    callId,
    name,
    digest: digestOfDeed(call),
    outcome,
    at,
    ...omitUndefined({ input: edited === true ? input : undefined }),
  };
}

function addDeed(context: Context, deed: Deed): Context {
  return { ...context, ledger: { ...context.ledger, fresh: [...context.ledger.fresh, deed] } };
}

/** The ledger for a run that continues this one: what has no outcome may have been done. */
export function closeLedger({ ledger, calls, now }: Context): Ledger {
  const unknown = calls.filter(
    call => call.sideEffect === 'once' && call.status !== 'settled' && wasBegun(call),
  );
  return { ...ledger, fresh: [...ledger.fresh, ...unknown.map(call => deedOf(call, 'unknown', now))] };
}

/** The ledger after a compaction. */
export function makePast({ fresh, past, counts }: Ledger): Ledger {
  const merged = { ...past };
  let counted = counts;
  for (const { name, digest, outcome, at } of fresh) {
    counted = withCount(counted, name, countOf(counted, name) + 1);
    if (outcome !== 'failed') merged[deedKeyOf(digest)] = { outcome, at };
  }
  return { fresh: [], past: merged, counts: counted };
}

/** How many deeds of the tool are counted: tools can have names such as `constructor`, which every object knows. */
export function countOf(counts: Ledger['counts'], name: string): number {
  return Object.hasOwn(counts, name) ? (counts[name] ?? 0) : 0;
}

export function withCount(counts: Ledger['counts'], name: string, count: number): Ledger['counts'] {
  return { ...counts, [name]: count };
}

/** What a conversation that is made of several has from them. Deeds that two of them have count once. */
export function mergeInheritance(one: Inheritance, other: Inheritance): Inheritance {
  let { counts } = one.ledger;
  for (const [name, count] of Object.entries(other.ledger.counts))
    counts = withCount(counts, name, Math.max(count, countOf(counts, name)));
  return {
    tokens: Math.max(one.tokens, other.tokens),
    ledger: {
      fresh: addOlderDeeds(one.ledger.fresh, other.ledger.fresh),
      past: { ...one.ledger.past, ...other.ledger.past },
      counts,
    },
    items: [...new Set([...one.items, ...other.items])],
  };
}

/** Those of `older` that `fresh` lacks come first. */
export function addOlderDeeds(fresh: Deed[], older: readonly Deed[]): Deed[] {
  const nameOf = ({ callId, at }: Deed) => JSON.stringify([callId, at]);
  const known = new Set(fresh.map(nameOf));
  return [...older.filter(deed => !known.has(nameOf(deed))), ...fresh];
}

const KEY_LENGTH = 16;

/** The name of a deed among those before the latest compaction. */
export function deedKeyOf(digest: string): string {
  return digest.slice(0, KEY_LENGTH);
}

type Gate = Pick<QualifiedCall, 'gate' | 'reason'>;

/** The gate of a call that equals a past deed; `undefined` for every other call. */
export function gateRepetition({ past }: Ledger, call: QualifiedCall): Gate | undefined {
  if (call.sideEffect !== 'once' || call.repeatable === true || call.error !== undefined) return undefined;
  const key = deedKeyOf(digestOfDeed(call));
  const deed = Object.hasOwn(past, key) ? past[key] : undefined;
  if (deed === undefined) return undefined;
  const did = deed.outcome === 'unknown' ? 'may be done already' : 'already done';
  const done = `${did}: ${describeCall(call)} at ${describeTime(deed.at)}`;
  return { gate: true, reason: call.reason === undefined ? done : `${done}; ${call.reason}` };
}

const LONGEST_INPUT = 200;

/** `refund(orderId: A-1001, cents: 4200)` */
function describeCall({ name, input }: QualifiedCall): string {
  const members =
    typeof input === 'object' && input !== null && !Array.isArray(input)
      ? Object.entries(input).map(([key, value]) => `${key}: ${plainText(value)}`)
      : [plainText(input)];
  const text = members.join(', ');
  return `${name}(${text.length > LONGEST_INPUT ? `${text.slice(0, LONGEST_INPUT)}…` : text})`;
}

function plainText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** `2026-11-24 10:03 UTC` */
export function describeTime(at: number): string {
  const [day, time = ''] = new Date(Math.min(at, LATEST_MS)).toISOString().split('T');
  return `${day} ${time.slice(0, 5)} UTC`;
}

/** The last time that a `Date` can hold. */
const LATEST_MS = 8.64e15;
