import type * as z from 'zod';
import { asSentence } from '../../../protocol/options/refuse-unknown.ts';
import { invalid, type ResponsesError } from '../api-error.ts';

/** The error for a schema's issue. Its `param` is the path of the issue, below the path `within`. */
export function describeIssue(issue: z.core.$ZodIssue | undefined, within = ''): ResponsesError {
  const param = placeOf(issue?.path ?? [], within);
  const where = param === '' ? 'The body' : `'${param}'`;
  return invalid(
    param || null,
    'invalid_value',
    asSentence(`${where} is not valid: ${issue?.message ?? 'unknown'}`),
  );
}

/** Formats a path as OpenAI does: `tools[0].name`. */
function placeOf(path: readonly PropertyKey[], within: string): string {
  let place = within;
  for (const key of path) {
    if (typeof key === 'number') place += `[${key}]`;
    else place += place === '' ? String(key) : `.${String(key)}`;
  }
  return place;
}
