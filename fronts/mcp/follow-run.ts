import type { ServerContext } from '@modelcontextprotocol/server';
import { EngineError } from '../../protocol/error.ts';
import type { Settled } from '../../protocol/run-view.ts';
import type { Hold } from '../../server/runs/run-registry.ts';
import { type OpenCalls, openCallsFor } from '../served/open-calls.ts';
import type { ServedRuns } from '../served/served-runs.ts';
import { type Decided, decide, formFor, NOTHING_DECIDED } from './ask.ts';
import { askOpenCall } from './ask-open-call.ts';
import { reportProgress } from './progress.ts';

/** How many forms in a row may come back unusable before a call is left open. */
const MOST_FAULTS = 3;

/** A run that a request waits for. */
export type Followed = {
  runs: ServedRuns;
  hold: Hold;
  ctx: ServerContext;
  /** Whether the client shows forms. */
  asks: boolean;
  /** Who decides. */
  by: string;
  /** The `_meta` of the forms. */
  meta?: { [key: string]: unknown };
};

/** How a run settled, and notes for the caller about the decisions. */
export type Followup = { settled: Settled; notes: readonly string[] };

/**
 * Waits until the run settles and asks an earlier client what it waits for, by forms while the client's request is open.
 * Returns once the run has ended or a call is left open. Adds the ids of those to `left`, which are not asked
 * about. Throws when the request ends; the run continues.
 */
export async function followAsking(followed: Followed, left = new Set<string>()): Promise<Followup> {
  const notes: string[] = [];
  let faults = 0;
  for (let decided: Decided = NOTHING_DECIDED; ; ) {
    const settled = await settle(followed);
    const all = openCallsFor(followed.hold.run.id, settled);
    const open = new Map([...all].filter(([id]) => !left.has(id)));
    if (isLeft(all, decided) || open.size === 0 || !followed.asks) return { settled, notes };
    if (faults === MOST_FAULTS) {
      for (const id of decided.faults.keys()) left.add(id);
      return { settled, notes };
    }
    decided = await askNow(followed, open, decided);
    for (const id of decided.cancelled) left.add(id);
    notes.push(...decided.notes);
    faults = decided.faults.size > 0 && decided.accepted === 0 ? faults + 1 : 0;
  }
}

/** Whether the person left one of these calls open. */
export function isLeft(open: OpenCalls, { cancelled }: Decided): boolean {
  return [...cancelled].some(id => open.has(id));
}

/** Like `followAsking`, but returns only once the run has ended: calls that are left open are decided elsewhere. */
export async function followToEnd(followed: Followed): Promise<Followup> {
  const { run } = followed.hold;
  const left = new Set<string>();
  const notes: string[] = [];
  for (;;) {
    const { seq } = run.durable;
    const followup = await followAsking(followed, left);
    notes.push(...followup.notes);
    if (followup.settled.status !== 'waiting') return { ...followup, notes };
    await untilChanged(followed, seq);
  }
}

/** Shows the forms of these calls and gives the replies to the run. */
async function askNow(
  { runs, hold: { run }, ctx, by, meta }: Followed,
  open: OpenCalls,
  { faults }: Decided,
): Promise<Decided> {
  const { name } = run.context.agent;
  const forms = [...open].map(([id, call]) => ({
    id,
    call,
    form: { ...formFor(call, name, faults.get(id)), ...(meta && { _meta: meta }) },
  }));
  const replies = await askOpenCall(run, forms, ctx);
  const now = openCallsFor(run.id, await runs.settledNow(run));
  const decided = await decide(run, { open: now, asked: digestsOf(open), replies, by });
  runs.drive(run.id);
  return decided;
}

/** Waits until the run settles; throws when the request ends. */
export async function settle({ hold, ctx }: Pick<Followed, 'hold' | 'ctx'>): Promise<Settled> {
  const stop = reportProgress(hold.run, ctx);
  try {
    return await whileOpen({ hold, ctx }, hold.run.settled());
  } finally {
    stop();
  }
}

/** Resolves once the journal of the run has an entry after `seq`; throws when the request ends. */
async function untilChanged({ hold, ctx }: Followed, seq: number): Promise<void> {
  const events = hold.run.events({ after: seq, follow: true })[Symbol.asyncIterator]();
  try {
    await whileOpen({ hold, ctx }, events.next());
  } finally {
    events.return?.().catch(() => {});
  }
}

async function whileOpen<Value>(
  { hold: { run, closing }, ctx }: Pick<Followed, 'hold' | 'ctx'>,
  value: Promise<Value>,
): Promise<Value> {
  const ended = AbortSignal.any([ctx.mcpReq.signal, closing]);
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(new EngineError('refused', `The request ended. Run ${run.id} continues.`));
  if (ended.aborted) abort();
  ended.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([value, aborted]);
  } finally {
    ended.removeEventListener('abort', abort);
  }
}

/** The digest of each call that is asked about, by its id for clients. */
export function digestsOf(open: OpenCalls): Record<string, string> {
  return Object.fromEntries([...open].map(([id, { digest }]) => [id, digest]));
}
