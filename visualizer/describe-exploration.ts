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

/** Says whether a rule was proved: `proved in 1200 states`. */
export function describeVerdict(rule: {
  verdict: 'proved' | 'broken' | 'not-proved';
  states: number;
  message?: string;
  only?: 'shadow' | 'function';
}): string {
  const { verdict, states, message = '', only } = rule;
  if (only === 'shadow') return `in the shadow; ${describeVerdict({ verdict, states, message })}`;
  switch (verdict) {
    case 'proved':
      return `proved in ${states} states`;
    case 'broken':
      return `broken: ${message}`;
    case 'not-proved':
      return `not proved: ${message}`;
  }
}

/** Warns of what a rule names although no tool of the agent has this name or tag. */
export function describeUnknownSelector(agent: string, selector: string): string {
  const has = selector.startsWith('#') ? 'has the tag' : 'has the name or tag';
  return `no tool of ${agent} ${has} ${selector}`;
}

type Explored = {
  agent: string;
  complete: boolean;
  unfinished: readonly Parameters<typeof describeUnfinished>[0][];
  rules: readonly (Parameters<typeof describeVerdict>[0] & { unknown?: readonly string[] })[];
};

/** The report as JSON has it: what it says of walks, rules and tools also in words. */
export function sayReport<Report extends Explored & { starts?: readonly Start[] }>(report: Report) {
  const { agent, complete, unfinished, rules, starts } = report;
  return {
    ...report,
    unfinished: unfinished.map(walks => ({ ...walks, says: describeUnfinished(walks) })),
    rules: rules.map(rule => ({
      ...rule,
      says: describeVerdict(rule),
      ...(rule.unknown && { warns: rule.unknown.map(selector => describeUnknownSelector(agent, selector)) }),
    })),
    ...(starts && {
      starts: starts.map(start => ({ ...start, says: describeToolStart(start, complete) })),
    }),
  };
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
