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

function explainEnd({ settled, advice }: RunView): StatusNotice[] {
  if (settled?.status === 'failed') {
    const { code, message } = settled.error;
    return [{ tone: 'fails', title: `Failed: ${code}`, text: advice ?? message }];
  }
  if (settled?.status !== 'finished') return [];
  const reason = settled.incomplete?.reason;
  const unread = settled.unread.length;
  const late = unread === 1 ? 'A message' : `${unread} messages`;
  return [
    ...cut(reason !== undefined, `The answer is incomplete: ${reason}`, advice ?? ''),
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
