import type { OpenCall, WaitingRun } from '../../protocol/run-view.ts';

/**
 * An open call that a person or a client has to decide. `approval`: whether it may run; `result`: what a client tool
 * returns; `doubt`: whether it happened. `key` names the call in the run and those of its sub-agents.
 */
export type Question = { key: string; kind: 'approval' | 'result' | 'doubt'; call: OpenCall };

/** The questions of a waiting run, with those of its sub-agents. A call that waits for a sub-agent's run is none. */
export function listQuestions(runId: string, { approvals, results, doubts }: WaitingRun): Question[] {
  const ask = (kind: Question['kind'], calls: readonly OpenCall[]) =>
    calls
      .filter(({ waitsFor }) => waitsFor === undefined)
      .map(call => ({ key: keyOf(runId, call), kind, call }));
  return [...ask('approval', approvals), ...ask('result', results), ...ask('doubt', doubts)];
}

function keyOf(runId: string, call: OpenCall): string {
  return call.runId === runId ? call.callId : `${call.runId}/${call.callId}`;
}

const SHOWN_INPUT = 2_000;

/** One line about a call: its tool and input, shortened, and the reason for the question. */
export function describeCall({ name, input, reason }: OpenCall): string {
  const text = JSON.stringify(input) ?? '';
  const shown = text.length > SHOWN_INPUT ? `${text.slice(0, SHOWN_INPUT)}…` : text;
  return `${name} ${shown}${reason === undefined ? '' : ` (${reason.slice(0, SHOWN_INPUT)})`}`;
}

/** The open calls of a waiting run, and the commands that decide them, as text for people and models. */
export function describeWaiting(runId: string, settled: WaitingRun): string {
  const questions = listQuestions(runId, settled);
  const lines = questions.map(({ kind, call }) => `- ${describeCall(call)}\n${COMMANDS[kind](runId, call)}`);
  const paused = settled.paused ? [`It is paused. To continue: agentchart unpause ${runId}`] : [];
  return [`Run ${runId} is not finished. It waits for:`, ...lines, ...paused].join('\n');
}

const COMMANDS: Readonly<Record<Question['kind'], (runId: string, call: OpenCall) => string>> = {
  approval: (runId, { callId }) =>
    `  To allow it: agentchart approve ${runId} ${callId}\n  To refuse it: agentchart reject ${runId} ${callId}`,
  result: (runId, { callId }) => `  To answer: agentchart answer ${runId} ${callId} --output JSON`,
  doubt: (runId, { callId }) =>
    `  It may have happened. To resolve it: agentchart resolve ${runId} ${callId} --retry | --happened JSON | --failed TEXT`,
};
