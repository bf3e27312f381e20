import type { Edge } from '../machines/step.ts';

/** Returns `source, event [guard] -> target`; an edge without a target has its actions in parentheses. */
export function nameEdge({ from, event, guard, to, actions }: Edge): string {
  const target = to.length === 0 ? `(${actions.join()})` : to.join();
  return `${from || '(any)'}, ${event || 'always'}${nameGuard(guard)} -> ${target}`;
}

function nameGuard(guard: unknown): string {
  if (guard === undefined) return '';
  return ` [${typeof guard === 'string' ? guard : JSON.stringify(guard)}]`;
}
