import type { SideEffect } from '../protocol/tool.ts';

/** What differs between a recorded run and one that was played from it. */
export type DifferenceKind =
  | 'new-call'
  | 'missing-call'
  | 'input'
  | 'decision'
  | 'outcome'
  | 'end'
  | 'output'
  | 'score';

/**
 * One difference. `turn` counts from 1, in the candidate, or for a `missing-call` in the recorded run. `field`: of an
 * `output`, its path, with dots. `detail` says in one line what was recorded and what came instead; its texts are foreign:
 * escape them before you show them.
 */
export type FoundDifference = {
  kind: DifferenceKind;
  turn: number;
  tool?: string;
  sideEffect?: SideEffect;
  field?: string;
  detail: string;
};

/**
 * `same`: effects, end and text are equal. `sameEffects`: only the text differs. `otherEffects`: anything else.
 * `undecidable`: it could not be played.
 */
export type Sameness = 'same' | 'sameEffects' | 'otherEffects' | 'undecidable';

/** A figure of the recorded run and of the played one. */
export type Paired = { recorded: number; candidate: number };

/** How a recorded run compares with one sample that was played from it. */
export type Comparison = {
  sameness: Sameness;
  /** In the order of the runs. */
  differences: FoundDifference[];
  /** Of an `undecidable` run: why. */
  why?: string;
  /** The sample ended at a call that the recording does not cover, so its figures are of a part of the run. */
  stopped?: true;
  turns: Paired;
  tokens: Paired;
  cost: Paired;
  score?: Paired;
};

/** The author of the note that ends the journal of a played run. */
export const REGRESS = 'regress';

/** The note: `of` is the recorded run, and samples count from 1. */
export type PlayedNote = Comparison & { of: string; side: 'candidate' | 'baseline'; sample: number };
