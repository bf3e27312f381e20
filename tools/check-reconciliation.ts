import type { Reconciliation } from '../protocol/tool.ts';

/**
 * What a `reconcile` answered, if it is an answer. Anything else throws: a misspelt or forgotten answer
 * must leave the call in doubt, and never count as "it did not happen", which would run it again.
 */
export function checkReconciliation(name: string, found: Reconciliation): Reconciliation {
  if (typeof found === 'object' && found !== null) {
    if ('unknown' in found && found.unknown === true) return found;
    const isFinal = 'final' in found ? found.final : undefined;
    if ('happened' in found && typeof found.happened === 'boolean' && isBooleanIfGiven(isFinal)) return found;
  }
  throw new Error(
    `reconcile of "${name}" answered neither { happened: true, output }, { happened: false, final? } nor { unknown: true }`,
  );
}

function isBooleanIfGiven(value: unknown): boolean {
  return value === undefined || typeof value === 'boolean';
}
