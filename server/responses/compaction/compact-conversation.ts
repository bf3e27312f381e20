// server/responses/compaction: `POST /v1/responses/compact`: a summary in place of a long conversation.

import type { Item } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { invalid, ResponsesError } from '../api-error.ts';
import type { GatewayRequest } from '../request/gateway-request.ts';
import { readCreateBody } from '../request/request-body.ts';
import { wireInputs } from '../wire/wire-input.ts';
import { compactionItem, compactionOf } from './compaction-items.ts';

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

/** What the model is asked to do, after the conversation. */
const PROMPT = `Write a summary of the conversation above, for a model that continues it without seeing it. Keep everything it needs: what the user wants and has decided, facts, names, numbers, ids and quotes that matter, which tools were called and their outcomes, what is done and what is still open. Leave out details that are no longer needed. Do not continue the conversation and do not address the user. Write only the summary.`;

/** The request that lets the model write the summary: that for the compaction, without input and tools. */
export function summaryRequest({ previousResponseId: _, ...asked }: GatewayRequest): GatewayRequest {
  return { ...asked, input: [], toolChoice: 'none' };
}

/** The transcript of the run that writes the summary. */
export function summaryTranscript(conversation: readonly Item[]): Item[] {
  return [...conversation, userMessage(PROMPT)];
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
