import type { Reconciliation } from '../protocol/tool.ts';

/**
 * Returns the answer of a tool's `reconcile` unchanged. Throws an `Error` if it is malformed: a misspelt or
 * missing answer must leave the call in doubt. Read as "it did not happen", it would run the call again.
 */
export function checkReconciliation(name: string, answer: Reconciliation): Reconciliation {
  if (typeof answer === 'object' && answer !== null) {
    if ('unknown' in answer && answer.unknown === true) return answer;
    const isFinal = 'final' in answer ? answer.final : undefined;
    if ('happened' in answer && typeof answer.happened === 'boolean' && isOptionalBoolean(isFinal))
      return answer;
  }
  throw new Error(
    `reconcile of "${name}": expected { happened: true, output }, { happened: false, final? } or { unknown: true }`,
  );
}

function isOptionalBoolean(value: unknown): boolean {
  return value === undefined || typeof value === 'boolean';
}
