import * as z from 'zod';
import type { RunEvent } from '../protocol/event.ts';
import {
  type DifferenceKind,
  type FoundDifference,
  type Paired,
  type PlayedNote,
  REGRESS,
  type Sameness,
} from './played-run.ts';

export const sideSchema = z.enum(['candidate', 'baseline']);

const kindSchema = z.enum([
  'new-call',
  'missing-call',
  'input',
  'decision',
  'outcome',
  'end',
  'output',
  'score',
]) satisfies z.ZodType<DifferenceKind>;

const differenceSchema = z.object({
  kind: kindSchema,
  turn: z.number().int().meta({ description: 'Counts from 1; of a missing call in the recorded run.' }),
  tool: z.exactOptional(z.string()),
  sideEffect: z.exactOptional(z.enum(['none', 'idempotent', 'once'])),
  field: z.exactOptional(z.string().meta({ description: 'Of an output: its path, with dots.' })),
  detail: z.string().meta({ description: 'What was recorded, and what came instead, in one line.' }),
}) satisfies z.ZodType<FoundDifference>;

const pairedSchema = z.object({
  recorded: z.number(),
  candidate: z.number(),
}) satisfies z.ZodType<Paired>;

export const samenessSchema = z.enum([
  'same',
  'sameEffects',
  'otherEffects',
  'undecidable',
]) satisfies z.ZodType<Sameness>;

/** How a played run compares, as lists show it. */
export const comparedShape = {
  side: sideSchema,
  sample: z.number().int().meta({ description: 'Counts from 1.' }),
  sameness: samenessSchema.meta({
    description:
      '`same`: effects, end and text are equal. `sameEffects`: only the text differs. `undecidable`: it could not be played.',
  }),
  differences: z.array(differenceSchema).meta({ description: 'In the order of the runs.' }),
  why: z.exactOptional(z.string().meta({ description: 'Why it is undecidable.' })),
  stopped: z.exactOptional(
    z.literal(true).meta({
      description:
        'It ended at a call that the recording does not cover: its figures are of a part of the run.',
    }),
  ),
  turns: pairedSchema,
  tokens: pairedSchema,
  cost: pairedSchema,
  score: z.exactOptional(pairedSchema),
};

const noteSchema = z.object({ ...comparedShape, of: z.string() }) satisfies z.ZodType<PlayedNote>;

/** The note in an event, if it is one: a store may come from elsewhere. */
export function readPlayedNote(event: RunEvent): PlayedNote | undefined {
  if (event.type !== 'run.noted' || event.by !== REGRESS) return undefined;
  return noteSchema.safeParse(event.note).data;
}
