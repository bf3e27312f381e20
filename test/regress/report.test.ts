import { describe, expect, it } from 'vitest';
import type { FoundDifference, Paired, PlayedNote } from '../../regress/played-run.ts';
import { ReportBuilder } from '../../regress/report.ts';
import { figureOf } from '../../regress/report-sums.ts';
import { makeNote, NEW_REFUND } from '../support/regress/played-runs.ts';

const lookup: FoundDifference = {
  ...NEW_REFUND,
  tool: 'lookup',
  sideEffect: 'none',
  detail: 'lookup is new',
};
const failed: FoundDifference = { kind: 'end', turn: 2, detail: 'the run failed (overloaded)' };

/** A report of notes, whose runs are `played-1`, `played-2` and so on. */
function reportOf(notes: readonly PlayedNote[], complete = true) {
  const builder = new ReportBuilder();
  for (const [place, note] of notes.entries()) builder.add(`played-${place + 1}`, note);
  return builder.report({ complete });
}

const fixed = (pairs: [number, number][]): Paired[] =>
  pairs.map(([recorded, candidate]) => ({ recorded, candidate }));

describe('a report', () => {
  it('counts runs by what they are', () => {
    const report = reportOf([
      makeNote('a'),
      makeNote('b', { sameness: 'sameEffects' }),
      makeNote('c', { differences: [NEW_REFUND, failed] }),
      makeNote('d', { sameness: 'undecidable', why: 'no tools' }),
      makeNote('e', { sameness: 'undecidable', why: 'redacted' }),
      makeNote('f', { sameness: 'undecidable', why: 'redacted' }),
    ]);
    expect(report).toMatchObject({ runs: 6, same: 1, sameEffects: 1, otherEffects: 1, undecidable: 3 });
    expect(report).toMatchObject({ samples: 1, compared: 3, complete: true });
    expect(report.reasons).toEqual([
      { why: 'redacted', count: 2, runIds: ['e', 'f'] },
      { why: 'no tools', count: 1, runIds: ['d'] },
    ]);
    expect(report.played.map(({ runId, sameness, candidate }) => [runId, sameness, candidate])).toEqual([
      ['a', 'same', 'played-1'],
      ['b', 'sameEffects', 'played-2'],
      ['c', 'otherEffects', 'played-3'],
      ['d', 'undecidable', 'played-4'],
      ['e', 'undecidable', 'played-5'],
      ['f', 'undecidable', 'played-6'],
    ]);
    expect(report.differences).toEqual([
      { ...NEW_REFUND, runId: 'c', candidate: 'played-3', samples: { shown: 1, of: 1 } },
      { ...failed, runId: 'c', candidate: 'played-3', samples: { shown: 1, of: 1 } },
    ]);
  });

  it('counts a run by its worst sample, and its differences by how many samples show them', () => {
    const other = { ...NEW_REFUND, turn: 2, detail: 'another refund is new' };
    const report = reportOf([
      makeNote('a', { sample: 1 }),
      makeNote('a', { sample: 2, differences: [NEW_REFUND] }),
      makeNote('a', { sample: 3, differences: [other, { ...other, turn: 3 }, failed] }),
      makeNote('a', { sample: 4, sameness: 'undecidable', why: 'redacted' }),
    ]);
    expect(report).toMatchObject({ runs: 1, otherEffects: 1, undecidable: 0, samples: 4, compared: 3 });
    expect(report.played).toEqual([
      { runId: 'a', sameness: 'otherEffects', candidate: 'played-2', samples: 3 },
    ]);
    expect(report.differences.map(({ detail, candidate, samples }) => [detail, candidate, samples])).toEqual([
      [NEW_REFUND.detail, 'played-2', { shown: 2, of: 3 }],
      [other.detail, 'played-3', { shown: 1, of: 3 }],
      [failed.detail, 'played-3', { shown: 1, of: 3 }],
    ]);
    expect(report.reasons).toEqual([]);
  });

  it('keeps ends apart that samples reach', () => {
    const cancelled = { ...failed, detail: 'the run was cancelled' };
    const { differences } = reportOf([
      makeNote('a', { sample: 1, differences: [failed] }),
      makeNote('a', { sample: 2, differences: [cancelled] }),
    ]);
    expect(differences.map(({ detail, samples }) => [detail, samples.shown])).toEqual([
      [failed.detail, 1],
      [cancelled.detail, 1],
    ]);
  });

  it('is the same in any order of the samples of its runs', () => {
    const notes = [
      makeNote('a', { sample: 1, sameness: 'undecidable', why: 'redacted' }),
      makeNote('a', { sample: 2, differences: [failed] }),
      makeNote('b', { sample: 1, cost: { recorded: 1, candidate: 2 } }),
      makeNote('b', { sample: 2, sameness: 'sameEffects' }),
    ];
    const { played: _, ...report } = reportOf(notes);
    const { played: __, ...reversed } = reportOf(notes.toReversed());
    const plain = (value: object) => JSON.stringify(value).replaceAll(/played-\d/g, 'played');
    expect(plain(reversed)).toBe(plain(report));
  });

  it('finds new and missing calls by tool and side effect', () => {
    const missing: FoundDifference = { ...lookup, kind: 'missing-call' };
    const report = reportOf([makeNote('a', { differences: [NEW_REFUND, lookup, missing] })]);
    expect(report.newCalls().map(({ tool }) => tool)).toEqual(['refund', 'lookup']);
    expect(report.newCalls({ sideEffect: 'once' }).map(({ tool }) => tool)).toEqual(['refund']);
    expect(report.newCalls({ tool: 'lookup', sideEffect: 'once' })).toEqual([]);
    expect(report.missingCalls({ tool: 'lookup' })).toHaveLength(1);
    expect(report.missingCalls({ tool: 'refund' })).toEqual([]);
    expect(() => report.newCalls({ name: 'refund' } as object)).toThrow(/unknown option "name"/);
    expect(JSON.parse(JSON.stringify(report))).not.toHaveProperty('newCalls');
  });

  it('counts the runs in which a tool is called otherwise', () => {
    const missing: FoundDifference = { ...NEW_REFUND, kind: 'missing-call' };
    const report = reportOf([
      makeNote('a', { differences: [NEW_REFUND, NEW_REFUND, lookup] }),
      makeNote('b', { differences: [NEW_REFUND] }),
      makeNote('c', { differences: [missing] }),
    ]);
    expect(report.tools).toEqual([
      { tool: 'refund', sideEffect: 'once', runs: { 'new-call': 2, 'missing-call': 1 } },
      { tool: 'lookup', sideEffect: 'none', runs: { 'new-call': 1 } },
    ]);
  });

  it('has totals of all samples, and pairs only of those that ended by themselves', () => {
    const cost = (recorded: number, candidate: number) => ({ cost: { recorded, candidate } });
    const report = reportOf([
      makeNote('a', { sample: 1, ...cost(1, 2) }),
      makeNote('a', { sample: 2, ...cost(1, 4) }),
      makeNote('b', { sample: 1, ...cost(2, 2) }),
      makeNote('b', { sample: 2, ...cost(2, 1), stopped: true, differences: [NEW_REFUND] }),
      makeNote('c', { sample: 1, ...cost(9, 1), stopped: true, differences: [NEW_REFUND] }),
      makeNote('d', { sample: 1, ...cost(99, 0), sameness: 'undecidable' }),
    ]);
    expect(report.cost).toEqual({ recorded: 12, candidate: 5.5 });
    expect(report.paired.cost).toMatchObject({ runs: 2, recorded: 1.5, candidate: 2.5, difference: 1 });
    expect(report.paired).not.toHaveProperty('score');
  });

  it('has the mean score of the runs that have one', () => {
    const report = reportOf([
      makeNote('a', { score: { recorded: 1, candidate: 0 } }),
      makeNote('b', { score: { recorded: 1, candidate: 1 } }),
      makeNote('c'),
    ]);
    expect(report.paired.score).toMatchObject({ runs: 2, recorded: 1, candidate: 0.5, difference: -0.5 });
  });

  it('says beside each difference how often the baseline shows it, and counts the baseline too', () => {
    const base = (of: string, sample: number, differences: FoundDifference[]) =>
      makeNote(of, { side: 'baseline', sample, ...(differences.length > 0 && { differences }) });
    const report = reportOf([
      makeNote('a', { sample: 1, differences: [NEW_REFUND, lookup] }),
      makeNote('a', { sample: 2, differences: [lookup, failed] }),
      base('a', 1, [lookup]),
      base('a', 2, [lookup]),
      makeNote('b', { sample: 1, differences: [NEW_REFUND] }),
      makeNote('b', { sample: 2, differences: [NEW_REFUND] }),
      base('b', 1, [{ ...NEW_REFUND, detail: 'another refund is new' }]),
      base('b', 2, []),
    ]);
    expect(
      report.differences.map(({ runId, tool, samples, baseline, noise }) => [
        runId,
        tool,
        samples.shown,
        baseline,
        noise,
      ]),
    ).toEqual([
      ['a', 'refund', 1, { shown: 0, of: 2 }, undefined],
      ['a', 'lookup', 2, { shown: 2, of: 2 }, true],
      ['a', undefined, 1, { shown: 0, of: 2 }, undefined],
      ['b', 'refund', 2, { shown: 1, of: 2 }, undefined],
    ]);
    expect(report.baseline).toMatchObject({ runs: 2, otherEffects: 2, compared: 4 });
    expect(report.baseline?.differences).toHaveLength(2);
    expect(report.runs).toBe(2);
  });

  it('of no runs is empty', () => {
    const report = reportOf([], false);
    expect(report).toMatchObject({ complete: false, runs: 0, compared: 0, differences: [], samples: 0 });
    expect(report.paired.cost).toEqual({ recorded: 0, candidate: 0, runs: 0, difference: 0, interval: null });
    expect(report).not.toHaveProperty('baseline');
  });
});

describe('the interval of a mean difference', () => {
  it("is that of Student's paired t test", () => {
    // Gosset's sleep data (The probable error of a mean, 1908): mean 1.58, 95 % interval 0.7001 to 2.4599.
    const sleep = fixed([
      [0.7, 1.9],
      [-1.6, 0.8],
      [-0.2, 1.1],
      [-1.2, 0.1],
      [-0.1, -0.1],
      [3.4, 4.4],
      [3.7, 5.5],
      [0.8, 1.6],
      [0, 4.6],
      [2, 3.4],
    ]);
    const { difference, interval } = figureOf(sleep);
    expect(difference).toBeCloseTo(1.58, 10);
    expect(interval?.low).toBeCloseTo(0.7001142, 4);
    expect(interval?.high).toBeCloseTo(2.4598858, 4);
  });

  it.each([
    [2, 12.7062],
    [31, 2.04227],
    [32, 2.03951],
    [61, 2.0003],
    [121, 1.97993],
    [1001, 1.96234],
  ])('of %i runs is as wide as the quantile says', (runs, quantile) => {
    const pairs = Array.from({ length: runs }, (_, at) => ({ recorded: 0, candidate: at % 2 }));
    const { difference: mean, interval } = figureOf(pairs);
    const squares = pairs.reduce((sum, { candidate }) => sum + (candidate - mean) ** 2, 0);
    const half = quantile * Math.sqrt(squares / (runs - 1) / runs);
    expect((interval?.high ?? 0) - mean).toBeCloseTo(half, 4);
    expect(mean - (interval?.low ?? 0)).toBeCloseTo(half, 4);
  });

  it('is unknown for one run, and a point if all differ alike', () => {
    expect(figureOf(fixed([[1, 3]]))).toMatchObject({ difference: 2, interval: null });
    expect(
      figureOf(
        fixed([
          [1, 2],
          [5, 6],
        ]),
      ),
    ).toMatchObject({ difference: 1, interval: { low: 1, high: 1 } });
  });
});
