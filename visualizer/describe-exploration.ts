export const NOT_PROVED =
  'Not proved: no invariant is violated where the walks came, but they stopped before their end.';

/** Says which walks stopped before their end, how much they left out, and what would complete them. */
export function describeUnfinished(walks: {
  paths: string;
  states: number;
  open: number;
  advice: string;
}): string {
  const { paths, states, open, advice } = walks;
  return `${paths}: what follows ${open} of ${states} states. ${advice}`;
}

/** What stands before the calls of a tool: inputs with which one starts freely, or once approved. */
type Start = { freely?: unknown; approved?: unknown };

/** Describes what stands before the calls of a tool. What no walk met is impossible only if all came to their end. */
export function describeToolStart({ freely, approved }: Start, complete: boolean): string {
  if (freely !== undefined)
    return approved === undefined
      ? 'may start without an approval'
      : 'may start; some calls need an approval';
  const met = approved === undefined ? 'cannot start' : 'only after an approval';
  return complete ? met : `${met}, where the walks came`;
}
