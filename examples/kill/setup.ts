import * as z from 'zod';

const ms = z.number().int().nonnegative();

/** Delays in ms, long enough for a person to kill the processes at any point. */
const paceSchema = z.strictObject({
  model: ms,
  /** In the tool, before the payment. */
  before: ms,
  /** In the tool, between the payment and its reply. */
  reply: ms,
});
export type Pace = z.infer<typeof paceSchema>;

export const DEMO_PACE: Pace = { model: 1_600, before: 900, reply: 2_500 };

const setupSchema = z.strictObject({ folder: z.string(), pace: paceSchema });

/** The options of a worker process: the folder for its files, and its pace. */
type Setup = z.infer<typeof setupSchema>;

const VARIABLE = 'KILL_DEMO';

/** Returns the environment variables that pass the options to a worker process. */
export function setupVariables(setup: Setup): Record<string, string> {
  return { [VARIABLE]: JSON.stringify(setup) };
}

/** Reads the options of this worker process. Throws if the demo did not start it. */
export function readSetup(): Setup {
  return setupSchema.parse(JSON.parse(process.env[VARIABLE] ?? 'null'));
}
