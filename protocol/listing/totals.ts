import * as z from 'zod/mini';
import { lazySchema } from '../schemas/lazy-schema.ts';

/** The most rows of totals. */
export const MOST_TOTALS = 5_000;

/** What runs can be grouped by, beside labels. */
export const TOTALS_MEMBERS = ['status', 'agent', 'model', 'errorCode'] as const;

/** In ms. */
const LEAST_STEP = 1_000;

export const totalsQuerySchema = lazySchema(() =>
  z.strictObject({
    /** What the runs are grouped by: members of their records, each once, and the value of at most one label. */
    by: z.exactOptional(
      z.array(
        z.union([
          z.enum(TOTALS_MEMBERS),
          z.strictObject({ label: z.string().check(z.minLength(1), z.maxLength(64)) }),
        ]),
      ),
    ),
    /** Also groups by the time of creation, in steps of so many ms, at least 1,000. */
    every: z.exactOptional(z.int().check(z.minimum(LEAST_STEP))),
  }),
);
export type TotalsQuery = z.infer<typeof totalsQuerySchema>;

/** The sums of one group of runs. A member that its runs do not have is absent. */
export type TotalsRow = {
  status?: string;
  agent?: string;
  model?: string;
  errorCode?: string;
  /** The value of the label. */
  label?: string;
  /** The start of the step in which the runs were created, in ms since the epoch. */
  at?: number;
  runs: number;
  turns: number;
  /** Input and output tokens. */
  tokens: number;
  /** Of `cachedOf` input tokens, so many came from the provider's cache. */
  cached: number;
  cachedOf: number;
  cost: number;
  activeMs: number;
  /** The runs that wait for the decision of a doubt. */
  doubts: number;
};

/** At most 5,000 rows: the newest steps first, then by their members. `more`: there are others. */
export type Totals = { rows: TotalsRow[]; more?: true };
