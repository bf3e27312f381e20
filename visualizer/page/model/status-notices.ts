import { isOpenItem, type OpenSignIn } from '../../../protocol/run-view.ts';
import type { JsonOpenItem, RunView } from '../data/request.ts';
import { subjectOf } from './subject-of.ts';

/** Returns the calls and answers of a run and its sub-agents that a person has to decide, doubts first. */
export function openDecisions(view: RunView | null): JsonOpenItem[] {
  const calls = (view?.open ?? []).filter(isOpenItem);
  return Object.keys(NEEDS).flatMap(kind => calls.filter(call => call.kind === kind));
}

export function openSignIns(view: RunView | null): OpenSignIn[] {
  return (view?.open ?? []).filter(one => one.kind === 'sign-in');
}

/** A notice in the run's header. `runs` are the runs that it links to. */
export type StatusNotice = {
  tone: 'waits' | 'doubts' | 'fails' | 'ends' | 'cuts';
  title: string;
  text: string;
  runs?: readonly string[];
};

const overLimit = (limit: string): string =>
  `The run reached its ${limit} limit. Continue in a new run, or start one with a higher limit.`;

const INCOMPLETE: Readonly<Record<string, string>> = {
  length: 'The reply reached the output token limit. Allow more output tokens, or continue in a new run.',
  content_filter: "The provider's content filter stopped the reply.",
  turns: overLimit('turn'),
  toolCalls: overLimit('tool call'),
  tokens: overLimit('token'),
  cost: overLimit('cost'),
  activeMs: overLimit('active time'),
  'usage-unknown':
    "The run has a limit on tokens or cost, and a turn reported no usage. Set onUnknownUsage: 'estimate' in the agent, use a model that reports usage, or remove the limit.",
  rule: 'A rule of the agent stopped the run. The refused call names it in the conversation.',
  repeatedFailures: 'The same call failed too often with the same input. See its error in the conversation.',
};

/** What to do after failures whose messages are in the conversation. */
const FAILED: Readonly<Record<string, string>> = {
  authentication: "Check the provider's API key in the server's environment, then start a new run.",
  permission: 'The API key has no access to this model. Use another model or another key.',
  quota: 'The provider account has no quota left. Add credit, or configure a fallback model.',
  'rate-limit': 'All retries failed. Try again later, or configure a fallback model.',
  overloaded: 'All retries failed. Try again later, or configure a fallback model.',
  'context-too-long':
    "The transcript exceeds the model's context. Set compaction in the agent, or use a model with a larger context.",
  'invalid-request': "The provider rejected the request. See the provider's message for the reason.",
  'script-exhausted': 'The scripted model has no more turns. Add a turn to its script.',
  'answer-blocked': 'The guardrails blocked the answer too often. See their reasons in the conversation.',
  'output-invalid':
    'The answer violated the output schema three times. See the validation errors in the conversation.',
};

/** What a run waits for, how it ended, and what to do next; advice about the server only for those who may follow it. */
export function statusNotices(view: RunView, mayContinue: boolean): StatusNotice[] {
  return [...explainWait(view), ...explainEnd(view), ...(mayContinue ? explainDriver(view) : [])];
}

function explainWait(view: RunView): StatusNotice[] {
  const { settled, open, paused, next } = view;
  if (settled?.status !== 'waiting') return [];
  const waits = (title: string, tone: StatusNotice['tone'] = 'waits') => ({ tone, title, text: '' });
  const own = Object.entries(NEEDS).flatMap(([kind, [, one, more]]) => {
    const many = open.filter(other => other.kind === kind && other.runId === view.runId).length;
    const tone = kind === 'doubt' ? 'doubts' : 'waits';
    return many === 0 ? [] : [waits(many === 1 ? one : `${many} ${more}`, tone)];
  });
  const reason = open.find(one => one.kind === 'pause')?.reason;
  // The bar of a held run says what holds it.
  const isPaused = paused && (reason !== undefined || next?.type !== 'pause');
  const text = reason ?? 'The run stops before the next model or tool call. Select Continue to resume it.';
  const pause: StatusNotice = { tone: reason === undefined ? 'cuts' : 'fails', title: 'Paused', text };
  return [
    ...own,
    ...openSignIns(view).map(({ reason: needs }) => waits(needs)),
    ...explainSubAgents(view),
    ...(isPaused ? [pause] : []),
  ];
}

/** In the order in which people decide: what a call needs, and the notices of one and of more in the run itself. */
const NEEDS: Readonly<Record<JsonOpenItem['kind'], readonly [needs: string, one: string, more: string]>> = {
  doubt: ['is in doubt', 'A call is in doubt', 'calls are in doubt'],
  approval: ['needs approval', 'A call needs approval', 'calls need approval'],
  question: ['asks', 'A tool asks', 'tools ask'],
  review: ['needs a review', 'The answer needs a review', 'answers need a review'],
  result: ['waits for its result', 'A call waits for its result', 'calls wait for their results'],
};

/** What the runs of sub-agents wait for. Runs that wait for the same share a notice. */
function explainSubAgents(view: RunView): StatusNotice[] {
  const open = openDecisions(view)
    .filter(({ runId }) => runId !== view.runId)
    .map(one => ({ run: one.runId, needs: `${subjectOf(one).name} ${NEEDS[one.kind][0]}` }));
  const byRun = Map.groupBy(open, ({ run }) => run);
  const needsOf = ([, calls]: [string, typeof open]): string => calls.map(({ needs }) => needs).join(', ');
  return [...Map.groupBy(byRun, needsOf)].map(([text, members]) => ({
    tone: 'waits',
    title:
      members.length === 1 ? 'A sub-agent is waiting' : `${members.length} sub-agents are waiting, each:`,
    text,
    runs: members.map(([run]) => run),
  }));
}

function explainEnd({ settled }: RunView): StatusNotice[] {
  if (settled?.status === 'failed') {
    const { code, message } = settled.error;
    return [{ tone: 'fails', title: `Failed: ${code}`, text: FAILED[code] ?? message }];
  }
  if (settled?.status !== 'finished') return [];
  const reason = settled.incomplete?.reason;
  const unread = settled.unread.length;
  const late = unread === 1 ? 'A message' : `${unread} messages`;
  return [
    ...cut(reason !== undefined, `The answer is incomplete: ${reason}`, INCOMPLETE[reason ?? ''] ?? ''),
    ...cut(
      unread > 0,
      `${late} arrived too late for the model to read`,
      'To have it read, send it again in a new run that continues this one.',
    ),
  ];
}

function explainDriver({ agent, status, driver, availableAgent, stranded }: RunView): StatusNotice[] {
  const resume = availableAgent ? 'Select Resume to continue it.' : '';
  const why = stranded === undefined ? resume : `${stranded.reason}. ${stranded.advice}`;
  const restart = `To continue the run, restart the server with --agent and the module of "${agent}".`;
  const isAlone = stranded !== undefined || (status === 'running' && driver === null);
  return [
    ...cut(isAlone, 'No process drives this run', why),
    ...cut(!availableAgent, 'This server does not have the agent of this run', restart),
  ];
}

function cut(isSo: boolean, title: string, text: string): StatusNotice[] {
  return isSo ? [{ tone: 'cuts', title, text }] : [];
}
