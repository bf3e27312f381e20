import type { Comparison, PlayedNote, Sameness } from './played-run.ts';
import type { ReportSums } from './report-sums.ts';

/** A played run as lists show it: `runId` is the recorded run, `candidate` the one that was played, also of a baseline. */
export type Regression = Comparison & {
  side: PlayedNote['side'];
  sample: number;
  runId: string;
  candidate: string;
  /** The title of the recorded run. */
  title: string;
  agent: string;
  /** When the recorded run began, in ms since the epoch. */
  createdAt: number;
};

/** Played runs added up. `runs` and `paired` are of those that match a filter, `played` has all of the candidate. */
export type RegressionSums = Pick<ReportSums, 'runs' | 'paired'> & {
  /** The figures in words: `cost $0.0123 → $0.0090, −26.8 % (−30.1 % to −23.5 %)`. */
  says: string[];
  /** In how many of its runs the baseline differs, in the way of the filter. */
  baseline?: { runs: number; differing: number };
  /**
   * `worst`: how the worst sample of the recorded run compares. `noise`: the places of the differences that the baseline
   * shows as often.
   */
  played: { candidate: string; worst: Sameness; noise: number[] }[];
};
