import type { Edge } from '../../machines/step.ts';

/** `source, event [guard with its params] -> target`, or what it does instead of moving. */
export function nameEdge({ from, event, guard, to, actions }: Edge): string {
  const target = to.length === 0 ? `(${actions.join()})` : to.join();
  return `${from || '(any)'}, ${event || 'always'}${nameGuard(guard)} -> ${target}`;
}

function nameGuard(guard: unknown): string {
  if (guard === undefined) return '';
  return ` [${typeof guard === 'string' ? guard : JSON.stringify(guard)}]`;
}
