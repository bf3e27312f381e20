import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
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

/** The context with which components submit decisions. */
export const ActContext = createContext<Act | null>(null);

/** Submits a decision, for the parts that decide calls. */
export function useAct(): Act {
  const act = useContext(ActContext);
  if (act === null) throw new Error('Decisions need a view that submits them.');
  return act;
}
