import { type Caller, personOf } from '../../access/caller.ts';
import { may } from '../../access/role.ts';
import { describeDuties, findBar } from '../../machines/duties.ts';
import type { People, Question } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { callIdFor } from '../../protocol/open/answer.ts';
import {
  isOpenItem,
  type OpenItem,
  type OpenQuestion,
  type Settled,
  type WaitingRun,
} from '../../protocol/run-view.ts';

/** Open calls and reviews of a run and its sub-agents, by their ids for the run's clients. */
export type OpenCalls = ReadonlyMap<string, OpenItem>;

/** The open calls of the run `runId` that has settled so; none unless it waits. */
export function openCallsFor(runId: string, settled: Settled | null): OpenCalls {
  if (settled?.status !== 'waiting') return new Map();
  return new Map(settled.open.filter(isOpenItem).map(one => [callIdFor(runId, one), one]));
}

const SHOWN_INPUT = 2_000;

export function describeCall(open: OpenItem): string {
  const { reason } = open;
  const [name, value] = open.kind === 'review' ? ['the answer', open.answer] : [open.name, open.input];
  const text = JSON.stringify(value) ?? '';
  const shown = text.length > SHOWN_INPUT ? `${text.slice(0, SHOWN_INPUT)}…` : text;
  return `${name} ${shown}${reason === undefined ? '' : ` (${reason.slice(0, SHOWN_INPUT)})`}`;
}

/** The open calls of a waiting run, and the commands that decide them, as text for people and models. */
export function describeOpenCalls(runId: string, settled: WaitingRun): string {
  const calls = [...openCallsFor(runId, settled).values()];
  const lines = calls.map(call => `- ${describeCall(call)}\n${COMMANDS[call.kind](runId, call)}`);
  const signIns = settled.open.flatMap(one =>
    one.kind === 'sign-in' ? `- ${one.reason} Use: agentchart mcp login ${one.server} --agent MODULE` : [],
  );
  const paused = settled.paused ? [`It is paused. To continue: agentchart unpause ${runId}`] : [];
  return [`Run ${runId} is not finished. It waits for:`, ...lines, ...signIns, ...paused].join('\n');
}

const COMMANDS: Readonly<Record<OpenItem['kind'], (runId: string, open: OpenItem) => string>> = {
  approval: (runId, { callId }) =>
    `  To allow it: agentchart approve ${runId} ${callId}\n  To refuse it: agentchart reject ${runId} ${callId}`,
  result: (runId, { callId }) => `  To answer: agentchart answer ${runId} ${callId} --output JSON`,
  doubt: (runId, { callId }) =>
    `  It may have happened. To resolve it: agentchart resolve ${runId} ${callId} --retry | --happened JSON | --failed TEXT`,
  question: (runId, { callId }) =>
    `  To answer: agentchart answer ${runId} ${callId} --answers JSON\n  To decline: agentchart reject ${runId} ${callId} --reason TEXT`,
  review: (runId, { callId }) =>
    `  To give it: agentchart approve ${runId} ${callId} [--answer TEXT]\n  To send it back: agentchart reject ${runId} ${callId} --reason TEXT`,
};

/** The questions that the caller may answer. */
function findOwn(caller: Caller, people: People, { questions }: OpenQuestion): Question[] {
  const { name, groups = [] } = personOf(caller) ?? {};
  const person = { ...omitUndefined({ by: name }), groups };
  return may(caller, 'result') ? questions.filter(one => findBar(one, people, person) === null) : [];
}

/** What is open with only those questions that the caller may answer. */
export function ownPartOf(caller: Caller, people: People, open: OpenItem): OpenItem {
  return open.kind === 'question' ? { ...open, questions: findOwn(caller, people, open) } : open;
}

/** The words for who decides a gated call or a review, or answers what a tool asks, if that is not the caller: for callers who cannot be asked. */
export function describeOthers(caller: Caller, people: People, call: OpenItem): string | undefined {
  if (call.kind === 'question') {
    const [first] = call.questions;
    return findOwn(caller, people, call).length > 0
      ? undefined
      : describeDuties(first ?? {}).replace('decision', 'answer');
  }
  if (call.kind !== 'approval' && call.kind !== 'review') return undefined;
  const { name, groups = [] } = personOf(caller) ?? {};
  const hasApproved = name !== undefined && call.approvedBy?.includes(name) === true;
  const bar = findBar(call, people, { ...omitUndefined({ by: name }), groups });
  return may(caller, 'decide') && bar === null && !hasApproved ? undefined : describeDuties(call);
}
