import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Act } from './open-decisions.ts';

/** The context with which components submit decisions. */
export const ActContext = createContext<Act | null>(null);

/** Submits a decision, for the parts that decide calls. */
export function useAct(): Act {
  const act = useContext(ActContext);
  if (act === null) throw new Error('Decisions need a view that submits them.');
  return act;
}
