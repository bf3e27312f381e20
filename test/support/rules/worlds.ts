import type { Condition, RuleCall, Worlds } from '../../../rules/condition.ts';

type Open = { earlier?: readonly RuleCall[]; later?: readonly RuleCall[] };

/** The states of a condition's automata after settled calls, and beside open ones that come earlier or later in the turn. */
export function worldsAfter(
  { automata }: Pick<Condition, 'automata'>,
  settled: readonly RuleCall[],
  { earlier = [], later = [] }: Open,
  succeeded: (call: RuleCall) => boolean = () => true,
): Worlds[] {
  return automata.map(({ take }) => {
    const least = settled.reduce((state, call) => take(state, call, succeeded(call)), 0);
    const early = earlier.reduce((state, call) => take(state, call, true), least);
    return { least, earlier: early, most: later.reduce((state, call) => take(state, call, true), early) };
  });
}
