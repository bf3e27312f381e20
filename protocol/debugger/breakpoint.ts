// protocol/debugger: breakpoints, which are part of a run's state.

import * as z from 'zod/mini';
import { contentSchema } from '../schemas/content.ts';
import { lazyObject, lazySchema } from '../schemas/lazy-schema.ts';

const text = lazySchema(() => z.string().check(z.minLength(1), z.maxLength(200)));
const scalar = lazySchema(() =>
  z.union([z.string().check(z.maxLength(1_000)), z.number(), z.boolean(), z.null()]),
);

export const HELD_ACTIONS = [
  'callModel',
  'streamFinal',
  'compact',
  'executeTools',
  'interruptForApproval',
  'awaitReview',
  'awaitAnswers',
  'awaitSignIn',
  'awaitResults',
  'resolveDoubt',
  'backOff',
  'finish',
  'fail',
] as const;
const heldActionSchema = lazySchema(() => z.enum(HELD_ACTIONS));

/** A predicate on the next action; without `next`, only on those that spend (models, tools, checks of the answer). */
export const breakpointSchema = lazyObject(() => ({
  id: text,
  next: z.exactOptional(heldActionSchema),
  tool: z.exactOptional(text),
  /** The turn that the action belongs to; a model call belongs to the turn that it begins. Counts from 1. */
  turn: z.exactOptional(z.int().check(z.positive())),
  /** The run has cost more than this, in the unit of its prices. */
  costOver: z.exactOptional(z.number().check(z.nonnegative())),
  /**
   * Compares a value of one of the action's calls, of `tool` if that is present. `path` begins with `input`, and names
   * own members and places of lists, separated by dots: `input.items.0.cents`. A missing value matches nothing. Order
   * is defined between two numbers and between two strings.
   */
  where: z.exactOptional(
    z.object({
      path: z.string().check(z.maxLength(500), z.regex(/^input(?:\.|$)/)),
      op: z.enum(['=', '!=', '<', '<=', '>', '>=']),
      value: contentSchema(scalar),
    }),
  ),
  /** It is removed when the run continues from it: "run to here". */
  once: z.exactOptional(z.literal(true)),
}));
export type Breakpoint = z.infer<typeof breakpointSchema>;

/** The breakpoints of a run, at most 50. */
export const breakpointsSchema = lazySchema(() =>
  z.array(breakpointSchema).check(
    z.maxLength(50),
    z.refine(all => new Set(all.map(({ id }) => id)).size === all.length, 'two breakpoints have the same id'),
  ),
);

/** In a redacted journal: by breakpoint, the digests of the calls that meet its condition. */
export const matchedSchema = lazySchema(() => z.exactOptional(z.record(z.string(), z.array(z.string()))));
