import type { OpenCall, WaitingRun } from '../../protocol/run-view.ts';

/**
 * An open call that a person or a client has to decide. `key` names the call in the run and those of its sub-agents.
 */
export type Question = { key: string; call: OpenCall };

/** The questions of a waiting run, with those of its sub-agents. */
export function listQuestions(runId: string, { open }: WaitingRun): Question[] {
  return open.flatMap(one => (one.kind === 'pause' ? [] : [{ key: keyOf(runId, one), call: one }]));
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
  const lines = questions.map(({ call }) => `- ${describeCall(call)}\n${COMMANDS[call.kind](runId, call)}`);
  const paused = settled.paused ? [`It is paused. To continue: agentchart unpause ${runId}`] : [];
  return [`Run ${runId} is not finished. It waits for:`, ...lines, ...paused].join('\n');
}

const COMMANDS: Readonly<Record<OpenCall['kind'], (runId: string, call: OpenCall) => string>> = {
  approval: (runId, { callId }) =>
    `  To allow it: agentchart approve ${runId} ${callId}\n  To refuse it: agentchart reject ${runId} ${callId}`,
  result: (runId, { callId }) => `  To answer: agentchart answer ${runId} ${callId} --output JSON`,
  doubt: (runId, { callId }) =>
    `  It may have happened. To resolve it: agentchart resolve ${runId} ${callId} --retry | --happened JSON | --failed TEXT`,
};
