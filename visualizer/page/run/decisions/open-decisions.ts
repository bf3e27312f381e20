import type { AnswerCommand } from '../../../../protocol/open/answer.ts';
import type { JsonOpenCall, RunView } from '../../data/request.ts';

/** The id of an open decision: another one if what is open or its input is another. */
export function keyOf({ id, digest }: JsonOpenCall): string {
  return `${id} ${digest}`;
}

/** Returns the calls of a run and its sub-agents that a person has to decide, doubts first. */
export function openDecisions(view: RunView | null): JsonOpenCall[] {
  const calls = (view?.open ?? []).flatMap(open => (open.kind === 'pause' ? [] : [open]));
  return ORDER.flatMap(kind => calls.filter(call => call.kind === kind));
}

const ORDER = ['doubt', 'approval', 'result'] as const;

/** Submits a command to its run. Resolves to a problem for the person, or `null`. */
export type Act = (command: AnswerCommand) => Promise<string | null>;
