import type { Item } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { compactionItem, compactionOf, type GatewayRequest } from '../gateway/index.ts';
import { invalid, ResponsesError } from '../openai-error.ts';
import { readCreateBody } from './request-body.ts';
import { wireInputs } from './wire-input.ts';

/** The members of a compaction's body. Others are ignored. */
const MEMBERS = ['model', 'input', 'previous_response_id', 'instructions', 'prompt_cache_key'];

/** Reads the body of `POST /v1/responses/compact`. Throws a `ResponsesError` with the path of the first problem. */
export function readCompactBody(value: unknown): GatewayRequest {
  const given = Object.entries(isJsonObject(value) ? value : {}).filter(
    ([name, member]) => member !== null && MEMBERS.includes(name),
  );
  const body = Object.fromEntries(given);
  if (body.model === undefined)
    throw invalid('model', 'missing_required_parameter', "Missing required parameter: 'model'.");
  const asked = readCreateBody(body);
  if (asked.input.length > 0 || asked.previousResponseId !== undefined) return asked;
  throw invalid(
    'input',
    'missing_required_parameter',
    "Missing required parameter: 'input'. Send the conversation, or a 'previous_response_id'.",
  );
}

/**
 * The result of a compaction: the messages that are not the model's, and one compaction item. Throws a `ResponsesError`
 * if the model did not finish the summary.
 */
export function compactedResponse(
  runId: string,
  conversation: readonly Item[],
  { id, created_at, status, incomplete_details, usage }: JsonObject,
): JsonObject {
  const { reason } = isJsonObject(incomplete_details) ? incomplete_details : {};
  if (status !== 'completed')
    throw new ResponsesError(`The model did not finish the summary (${String(reason ?? status)}).`, {
      status: 502,
      type: 'server_error',
      code: 'compaction_incomplete',
    });
  const kept = conversation.filter(
    item => item.type === 'message' && item.role !== 'assistant' && compactionOf(item) === undefined,
  );
  return {
    id: id ?? null,
    object: 'response.compaction',
    created_at: created_at ?? null,
    output: [...wireInputs(kept, {}), compactionItem(runId)] satisfies JsonValue[],
    usage: usage ?? NO_USAGE,
  };
}

/** The usage where the provider reported none. */
const NO_USAGE = {
  input_tokens: 0,
  input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  output_tokens: 0,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: 0,
};
