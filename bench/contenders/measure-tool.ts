import * as z from 'zod';

/** The agent of every contender: its model, its instructions and its tool. */

export const MODEL = 'gpt-4.1';
export const BASE_URL = 'http://stand-in.invalid/v1';
export const API_KEY = 'stand-in';
export const INSTRUCTIONS = 'You measure points. Use the tool, then say in how many rounds you did.';

export const TOOL_NAME = 'measure';
export const TOOL_DESCRIPTION = 'Measures one point.';

export const inputSchema = z.object({ point: z.number(), unit: z.string() });

export const PARAMETERS = {
  type: 'object',
  properties: { point: { type: 'number' }, unit: { type: 'string' } },
  required: ['point', 'unit'],
  additionalProperties: false,
};

/** The tool's function. */
export async function measurePoint({ point, unit }: z.infer<typeof inputSchema>) {
  return { point, length: point * 2, unit };
}
