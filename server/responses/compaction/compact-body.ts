import * as z from 'zod';
import { isJsonObject } from '../../../protocol/json.ts';
import { invalid } from '../api-error.ts';
import { type CreateBody, readCreateBody } from '../request/request-body.ts';

const fields = z.object({
  input: z.optional(z.unknown()),
  previous_response_id: z.optional(z.unknown()),
  instructions: z.optional(z.unknown()),
  prompt_cache_key: z.optional(z.unknown()),
});

/** Validates the body of `POST /v1/responses/compact`. Throws a `ResponsesError` with the path of the first problem. */
export function readCompactBody(value: unknown): CreateBody {
  const { model } = isJsonObject(value as never) ? (value as { model?: unknown }) : {};
  if (model == null)
    throw invalid('model', 'missing_required_parameter', "Missing required parameter: 'model'.");
  const { input, ...rest } = fields.parse(value);
  const body = readCreateBody({ ...rest, ...(input == null ? {} : { input }), model });
  if (body.input.length > 0 || body.previous_response_id != null) return body;
  throw invalid(
    'input',
    'missing_required_parameter',
    "Missing required parameter: 'input'. Send the conversation, or a 'previous_response_id'.",
  );
}
