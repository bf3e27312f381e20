import type { ElicitRequestFormParams, ServerContext } from '@modelcontextprotocol/server';
import { listOpen } from '../../engine/log/settled.ts';
import type { StoryEvent } from '../../engine/story/story-event.ts';
import { EngineError } from '../../protocol/error.ts';
import type { OpenCall, Settled } from '../../protocol/run-view.ts';
import { type Hold, settledNow } from '../../server/runs/run-registry.ts';
import { type OpenCalls, openCallsFor } from '../served/open-calls.ts';
import type { ServedRuns } from '../served/served-runs.ts';
import { type Decided, decide, formFor, NOTHING_DECIDED } from './ask.ts';

/** How long a person may take to answer a form, in ms: a day. */
const FORM_MS = 24 * 60 * 60 * 1_000;

/** How many forms in a row may come back unusable before a call is left open. */
const MOST_FAULTS = 3;

export type Followed = {
  runs: ServedRuns;
  hold: Hold;
  ctx: ServerContext;
  asks: boolean;
  by: string;
  meta?: { [key: string]: unknown };
};

/** How a run settled, and notes for the caller about the decisions. */
export type Followup = { settled: Settled; notes: readonly string[] };

/** Asks by forms. Calls that are left open are added to `left` and not asked about. Throws when the request ends. */
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

async function askNow(followed: Followed, open: OpenCalls, { faults }: Decided): Promise<Decided> {
  const { runs, by, meta } = followed;
  const { run } = followed.hold;
  const { name } = run.context.agent;
  const forms = [...open].map(([id, call]) => {
    const form = { ...formFor(call, name, faults.get(id)), ...(meta && { _meta: meta }) };
    return { id, call, form, withdrawn: new AbortController() };
  });
  const replies = await askOpenCalls(followed, forms);
  const now = openCallsFor(run.id, await settledNow(run));
  const decided = await decide(run, { open: now, asked: digestsOf(open), replies, by });
  runs.drive(run.id);
  return decided;
}

type AskedForm = { id: string; call: OpenCall; form: ElicitRequestFormParams; withdrawn: AbortController };

/** A form that fails, or whose call is decided elsewhere in the meantime, is withdrawn and counts as cancelled. */
async function askOpenCalls(
  followed: Followed,
  forms: readonly AskedForm[],
): Promise<Record<string, unknown>> {
  const { run } = followed.hold;
  const { mcpReq } = followed.ctx;
  const story = run.storyBatches({ after: run.durable.seq, follow: true, subAgents: 'merged' });
  withdrawDecided(followed, forms, story).catch(() => {});
  try {
    const replies = forms.map(async ({ id, form, withdrawn }) => {
      const options = { timeout: FORM_MS, signal: AbortSignal.any([mcpReq.signal, withdrawn.signal]) };
      const asked = mcpReq.send({ method: 'elicitation/create', params: form }, options);
      return [id, await asked.catch(() => ({ action: 'cancel' }))] as const;
    });
    return Object.fromEntries(await Promise.all(replies));
  } finally {
    story.return(undefined).catch(() => {});
  }
}

/** Withdraws the forms of calls that are no longer open as they were asked about, whenever something happened. */
async function withdrawDecided(
  { hold: { run } }: Followed,
  forms: readonly AskedForm[],
  story: AsyncIterable<readonly StoryEvent[]>,
): Promise<void> {
  const withdraw = async () => {
    const settled = await settledNow(run);
    const open = settled?.status === 'waiting' ? settled.open : listOpen(run.context);
    const digests = new Map(open.map(one => [one.id, one.kind === 'pause' ? undefined : one.digest]));
    // While the run does something, only its own open calls are known.
    for (const { call, withdrawn } of forms)
      if (digests.get(call.id) !== call.digest && (settled !== null || call.runId === run.id))
        withdrawn.abort();
  };
  await withdraw();
  for await (const told of story) if (told.some(event => 'seq' in event)) await withdraw();
}

/** Waits until the run settles, and reports its progress if the client asked for it; throws when the request ends. */
export async function settle({ hold, ctx }: Pick<Followed, 'hold' | 'ctx'>): Promise<Settled> {
  const { run } = hold;
  const progressToken = ctx.mcpReq._meta?.progressToken;
  const settling = run.settled();
  if (progressToken === undefined) return await whileOpen({ hold, ctx }, settling);
  const story = run.storyBatches({ after: run.durable.seq, until: () => settling });
  try {
    const reported = reportProgress(story, progressToken, ctx).catch(() => {});
    return await whileOpen(
      { hold, ctx },
      reported.then(() => settling),
    );
  } finally {
    story.return(undefined).catch(() => {});
  }
}

async function reportProgress(
  story: AsyncIterable<readonly StoryEvent[]>,
  progressToken: string | number,
  { mcpReq }: ServerContext,
): Promise<void> {
  for await (const told of story)
    for (const event of told) {
      const message = describeProgress(event);
      if (message === null || !('seq' in event)) continue;
      const params = { progressToken, message, progress: event.seq };
      await mcpReq.notify({ method: 'notifications/progress', params });
    }
}

function describeProgress(told: StoryEvent): string | null {
  if (told.type === 'call.started') return `${told.name} has started.`;
  if (told.type !== 'turn.closed') return null;
  return told.completed.calls.length > 0 ? 'The model calls tools.' : 'The model has answered.';
}

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

export function digestsOf(open: OpenCalls): Record<string, string> {
  return Object.fromEntries([...open].map(([id, { digest }]) => [id, digest]));
}
