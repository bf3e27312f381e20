import type { Comparison, PlayedNote } from './played-run.ts';

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
