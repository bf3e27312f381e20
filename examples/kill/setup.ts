import * as z from 'zod';

const ms = z.number().int().nonnegative();

/** How long things take, in ms, so that a person can hit any instant. */
export const paceSchema = z.strictObject({
  model: ms,
  /** In the tool, before the money moves. */
  before: ms,
  /** In the tool, after the money moved and before its reply is here. */
  reply: ms,
});
export type Pace = z.infer<typeof paceSchema>;

export const DEMO_PACE: Pace = { model: 1_600, before: 900, reply: 2_500 };

const setupSchema = z.strictObject({ folder: z.string(), pace: paceSchema });

/** What a worker process is told when it starts: the folder with its files, and how fast it goes. */
export type Setup = z.infer<typeof setupSchema>;

const VARIABLE = 'KILL_DEMO';

export function setupVariables(setup: Setup): Record<string, string> {
  return { [VARIABLE]: JSON.stringify(setup) };
}

/** Throws where the process was not started by the demonstration. */
export function readSetup(): Setup {
  return setupSchema.parse(JSON.parse(process.env[VARIABLE] ?? 'null'));
}
