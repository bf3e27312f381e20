import { describe, expect, it } from 'vitest';
import { failuresOf, readFailOn } from '../../regress/fail-on.ts';
import type { FoundDifference, PlayedNote } from '../../regress/played-run.ts';
import { ReportBuilder } from '../../regress/report.ts';
import { makeNote, NEW_REFUND } from '../support/regress/played-runs.ts';

const lookup: FoundDifference = {
  ...NEW_REFUND,
  tool: 'lookup',
  sideEffect: 'none',
  detail: 'lookup is new',
};
const missing: FoundDifference = { ...NEW_REFUND, kind: 'missing-call', detail: 'refund was not called' };
const input: FoundDifference = { ...NEW_REFUND, kind: 'input', detail: 'refund: cents is 2 (was 1)' };
const end: FoundDifference = { kind: 'end', turn: 1, detail: 'the run failed (overloaded)' };

const same = makeNote('b');
const differs = (...differences: FoundDifference[]) => makeNote('a', { differences });
const base = (note: PlayedNote): PlayedNote => ({ ...note, side: 'baseline' });

function failures(text: string, ...notes: PlayedNote[]): string[] {
  const builder = new ReportBuilder();
  for (const [place, note] of notes.entries()) builder.add(`played-${place}`, note);
  return failuresOf(builder.report({ complete: true }), readFailOn(text));
}

it('conditions are read with blanks and fractions', () => {
  expect(
    readFailOn('new-once-calls,missing-calls, other-effects , cost>10%,turns > 2.5 %,tokens>0%'),
  ).toEqual([
    { type: 'new-once-calls' },
    { type: 'missing-calls' },
    { type: 'other-effects' },
    { type: 'cost', over: 0.1 },
    { type: 'turns', over: 0.025 },
    { type: 'tokens', over: 0 },
  ]);
});

it.each(['', 'new-call', 'cost', 'cost>x%', 'cost>10', 'cost<10%', 'price>10%', 'undecidable,', 'cost>-1%'])(
  'refuses %j by name',
  text => {
    expect(() => readFailOn(text)).toThrow(/^--fail-on: unknown condition ".*"/);
  },
);

it('lists the known conditions', () => {
  expect(() => readFailOn('anything')).toThrow(
    'expected one of new-calls, new-once-calls, missing-calls, other-effects, undecidable, cost>N%, turns>N%, tokens>N%.',
  );
});

const costs = (of: string, candidate: number) => makeNote(of, { cost: { recorded: 1, candidate } });

describe('a report', () => {
  it.each<[string, PlayedNote[], string[]]>([
    ['new-once-calls', [same, differs(lookup)], []],
    [
      'new-once-calls',
      [same, differs(NEW_REFUND)],
      [`1 new call of refund in 2 played runs. The first, of run a: ${NEW_REFUND.detail}.`],
    ],
    [
      'new-once-calls',
      [differs(input)],
      ['1 new call of refund in 1 played run. The first, of run a: refund: cents is 2 (was 1).'],
    ],
    [
      'new-calls',
      [differs(lookup, NEW_REFUND)],
      [
        '1 new call of lookup in 1 played run. The first, of run a: lookup is new.',
        `1 new call of refund in 1 played run. The first, of run a: ${NEW_REFUND.detail}.`,
      ],
    ],
    ['missing-calls', [differs(NEW_REFUND)], []],
    [
      'missing-calls',
      [differs(missing, missing)],
      ['2 missing calls of refund in 1 played run. The first, of run a: refund was not called.'],
    ],
    ['other-effects', [same], []],
    ['other-effects', [same, differs(end)], ['1 of 2 runs has other effects.']],
    ['undecidable', [same], []],
    [
      'undecidable',
      [same, makeNote('a', { sameness: 'undecidable', why: 'a tool is gone' })],
      ['1 of 2 runs could not be played: a tool is gone.'],
    ],
    ['cost>10%', [costs('a', 1.1)], []],
    [
      'cost>10%',
      [costs('a', 1.1), costs('b', 1.2)],
      ['The cost of a run grew by 15 %, over 2 runs; at most 10 % was allowed.'],
    ],
    ['cost>10%', [costs('a', 0)], []],
    [
      'turns>50%',
      [makeNote('a', { turns: { recorded: 2, candidate: 4 } })],
      ['The turns of a run grew by 100 %, over 1 run; at most 50 % was allowed.'],
    ],
    [
      'tokens>0%',
      [makeNote('a', { tokens: { recorded: 0, candidate: 4 } })],
      ['The tokens of a run grew from 0 to 4, over 1 run; at most 0 % was allowed.'],
    ],
  ])('with %s is judged by its runs', (condition, notes, expected) => {
    expect(failures(condition, ...notes)).toEqual(expected);
  });

  it('does not fail by what the baseline shows as often', () => {
    const elsewhere = { ...differs(NEW_REFUND), of: 'b' };
    expect(failures('new-once-calls,other-effects', differs(NEW_REFUND), same, base(elsewhere))).toEqual([]);
    expect(
      failures(
        'new-calls,other-effects',
        differs(NEW_REFUND),
        elsewhere,
        base(elsewhere),
        base(makeNote('a')),
      ),
    ).toEqual([
      `2 new calls of refund in 2 played runs; the baseline has 1 in 2. The first, of run a: ${NEW_REFUND.detail}.`,
      '2 of 2 runs have other effects; in the baseline 1 of 2.',
    ]);
    expect(failures('new-calls', differs(NEW_REFUND), base(differs(lookup)))).toHaveLength(1);
    expect(failures('cost>10%', costs('a', 2), base(costs('a', 2)))).toEqual([]);
    expect(failures('cost>10%', costs('a', 2), base(costs('a', 1.5)))).toEqual([
      "The cost of a run grew by 100 %, over 1 run; the baseline's by 50 %; at most 10 % was allowed.",
    ]);
  });
});
