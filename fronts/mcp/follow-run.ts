import type { ServerContext } from '@modelcontextprotocol/server';
import type { Run } from '../../engine/run/run.ts';
import { EngineError } from '../../protocol/error.ts';
import type { Settled, WaitingRun } from '../../protocol/run-view.ts';
import type { Hold } from '../../server/runs/run-registry.ts';
import { listQuestions, type Question } from '../served/questions.ts';
import type { ServedRuns } from '../served/served-runs.ts';
import { type Decided, decide, formFor, NOTHING_DECIDED } from './ask.ts';
import { askOpenCall } from './ask-open-call.ts';
import { reportProgress } from './progress.ts';

/** How many forms in a row may come back unusable before a question is left open. */
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
 * Returns once the run has ended or a question is left open. Adds the keys of those to `left`, whose questions are not
 * asked. Throws when the request ends; the run continues.
 */
export async function followAsking(followed: Followed, left = new Set<string>()): Promise<Followup> {
  const notes: string[] = [];
  let faults = 0;
  for (let decided: Decided = NOTHING_DECIDED; ; ) {
    const settled = await settle(followed);
    const questions = questionsOf(followed.hold.run, settled);
    const open = questions.filter(({ key }) => !left.has(key));
    const isLeft = questions.some(({ key }) => decided.cancelled.has(key));
    if (isLeft || open.length === 0 || !followed.asks) return { settled, notes };
    if (faults === MOST_FAULTS) {
      for (const key of decided.faults.keys()) left.add(key);
      return { settled, notes };
    }
    decided = await askNow(followed, open, decided);
    for (const key of decided.cancelled) left.add(key);
    notes.push(...decided.notes);
    faults = decided.faults.size > 0 && decided.accepted === 0 ? faults + 1 : 0;
  }
}

/** Like `followAsking`, but returns only once the run has ended: questions that are left open are decided elsewhere. */
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

/** Shows the forms of these questions and gives the answers to the run. */
async function askNow(
  { runs, hold: { run }, ctx, by, meta }: Followed,
  questions: readonly Question[],
  { faults }: Decided,
): Promise<Decided> {
  const { name } = run.context.agent;
  const forms = questions.map(question => ({
    question,
    form: { ...formFor(question, name, faults.get(question.key)), ...(meta && { _meta: meta }) },
  }));
  const answers = await askOpenCall(run, forms, ctx);
  const waiting = waitingOf(await runs.settledNow(run));
  const decided = await decide(run, { waiting, asked: digestsOf(questions), answers, by });
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

/** The run's open calls, if it waits. */
export function waitingOf(settled: Settled | null): WaitingRun | null {
  return settled?.status === 'waiting' ? settled : null;
}

/** The questions of a run that has settled; none if it has ended. */
export function questionsOf(run: Run, settled: Settled | null): Question[] {
  const waiting = waitingOf(settled);
  return waiting === null ? [] : listQuestions(run.id, waiting);
}

/** The digest of each call that is asked about, by the key of its question. */
export function digestsOf(questions: readonly Question[]): Record<string, string> {
  return Object.fromEntries(questions.map(({ key, call: { digest } }) => [key, digest]));
}
