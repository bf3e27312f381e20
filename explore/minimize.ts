import type { Automaton, RuleCall } from '../rules/condition.ts';

/** Which states of an automaton, and which calls, make no difference to what it says of any of the explored calls. */
export type Classes = {
  classOf(state: number): string;
  symbolOf(call: RuleCall): string;
};

/** Above this many states, none are taken together. */
const MOST_STATES = 128;

type Table = {
  states: readonly number[];
  /** By state and symbol: the index of the state that follows. */
  next: readonly (readonly number[])[];
};

const OUTCOMES = [true, false] as const;

/**
 * Minimizes an automaton over the calls that are explored, of which at most `most` begin after the state `from`: a count
 * or an amount that no further call can bring to its limit is as good as any other.
 */
export function minimize(
  automaton: Automaton,
  calls: readonly RuleCall[],
  from: number,
  most: number,
): Classes {
  const table = reach(automaton, calls, from, most);
  const blocks = table && refine(automaton, calls, table);
  const classes = new Map(table?.states.map((state, index) => [state, String(blocks?.of[index])]));
  const classOf = (state: number): string => classes.get(state) ?? `=${state}`;
  const states = table?.states ?? [from];
  return {
    classOf,
    symbolOf(call) {
      if (table === null && isSeen(automaton, call, from)) return JSON.stringify([call.name, call.input]);
      const row = (state: number) => [
        ...OUTCOMES.map(outcome => classOf(automaton.take(state, call, outcome))),
        saysOf(automaton, state, state, call),
      ];
      return [...new Set(states.map(state => `${classOf(state)}:${row(state)}`))].join();
    },
  };
}

/** Above this many states, an outlook is short. */
const FEW_STATES = 16;

/**
 * What an automaton may still say of the calls that are explored, from a state on: equal texts for two states if it says
 * and does the same from both. If it has many states, the text has only what it says there: a heuristic, since a far
 * amount may still differ from a near one.
 */
export function describeOutlook(
  automaton: Automaton,
  calls: readonly RuleCall[],
  state: number,
  most: number,
): string {
  const table = reach(automaton, calls, state, most, FEW_STATES);
  if (table === null) return `~${calls.map(call => saysOf(automaton, state, state, call)).join()}`;
  const { of, count } = refine(automaton, calls, table);
  const places = Array.from({ length: count }, (_, block) => of.indexOf(block));
  return JSON.stringify(
    places.map(place => [
      (table.next[place] ?? []).map(to => of[to]),
      places.flatMap(other =>
        calls.map(call => saysOf(automaton, table.states[place] ?? 0, table.states[other] ?? 0, call)),
      ),
    ]),
  );
}

function isSeen({ take }: Automaton, call: RuleCall, state: number): boolean {
  return OUTCOMES.some(outcome => take(state, call, outcome) !== state);
}

/** The states that so many calls can lead to; `null` if there are too many. */
function reach(
  { take }: Automaton,
  calls: readonly RuleCall[],
  from: number,
  most: number,
  mostStates = MOST_STATES,
): Table | null {
  const states = [from];
  const known = new Map([[from, 0]]);
  const next: number[][] = [];
  let level = 0;
  for (let begin = 0; begin < states.length; level += 1) {
    const end = states.length;
    for (const state of states.slice(begin, end)) {
      const row = calls.flatMap(call => OUTCOMES.map(outcome => take(state, call, outcome)));
      next.push(
        row.map(after => {
          const index = known.get(after);
          if (index !== undefined) return index;
          if (level >= most) return known.get(state) ?? 0;
          known.set(after, states.length);
          return states.push(after) - 1;
        }),
      );
    }
    if (states.length > mostStates) return null;
    begin = end;
  }
  return { states, next };
}

/** The class of each state, numbered in the order of the states. */
function refine(automaton: Automaton, calls: readonly RuleCall[], { states, next }: Table): Blocks {
  let blocks = number(
    states.map(state =>
      states
        .flatMap(other =>
          calls.map(call => saysOf(automaton, state, other, call) + saysOf(automaton, other, state, call)),
        )
        .join(''),
    ),
  );
  for (let count = 0; count !== blocks.count; ) {
    count = blocks.count;
    const { of } = blocks;
    blocks = number(states.map((_, index) => [of[index], ...(next[index] ?? []).map(to => of[to])].join()));
  }
  return blocks;
}

type Blocks = { of: number[]; count: number };

function number(texts: readonly string[]): Blocks {
  const known = new Map<string, number>();
  const of = texts.map(text => {
    const index = known.get(text) ?? known.size;
    known.set(text, index);
    return index;
  });
  return { of, count: known.size };
}

/** Whether the condition may hold, and whether it must, for a call in the worlds between two states. */
export function saysOf({ holds }: Automaton, least: number, most: number, call: RuleCall): string {
  try {
    const { may, must } = holds({ least, earlier: most, most }, call);
    return `${may ? 1 : 0}${must ? 1 : 0}`;
  } catch {
    return '!';
  }
}
