import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import type { Usage } from '../../../protocol/turn.ts';
import type { ResponseSpec } from './response-spec.ts';

/** The status of a response in the API. */
type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** The variable part of a response. Times are ms since the epoch. */
export type ResponseState = {
  status: ResponseStatus;
  completedAt: number | null;
  incompleteReason: string | null;
  error: { code: string; message: string } | null;
  output: readonly JsonObject[];
  usage: Usage | null;
};

/** The fixed part of a response. */
export type ResponseHead = { id: string; createdAt: number; spec: ResponseSpec };

/** The response object, with every field of OpenAI and the Open Responses schema. */
export function responseObject({ id, createdAt, spec }: ResponseHead, state: ResponseState): JsonObject {
  const { request } = spec;
  const or = (field: string, otherwise: JsonValue): JsonValue => request[field] ?? otherwise;
  const text = isJsonObject(request.text) ? request.text : {};
  const reasoning = isJsonObject(request.reasoning) ? request.reasoning : {};
  return {
    id,
    object: 'response',
    created_at: Math.floor(createdAt / 1000),
    ...omitUndefined({ conversation: spec.conversation && { id: spec.conversation.id } }),
    completed_at: state.completedAt === null ? null : Math.floor(state.completedAt / 1000),
    status: state.status,
    background: or('background', false),
    error: state.error,
    incomplete_details: state.incompleteReason === null ? null : { reason: state.incompleteReason },
    instructions: or('instructions', null),
    max_output_tokens: or('max_output_tokens', null),
    max_tool_calls: or('max_tool_calls', null),
    model: or('model', spec.model),
    output: [...state.output],
    parallel_tool_calls: or('parallel_tool_calls', true),
    previous_response_id: or('previous_response_id', null),
    prompt_cache_key: or('prompt_cache_key', null),
    reasoning: { effort: reasoning.effort ?? null, summary: reasoning.summary ?? null },
    safety_identifier: or('safety_identifier', null),
    service_tier: or('service_tier', 'default'),
    store: or('store', true),
    temperature: or('temperature', 1),
    text: { ...text, format: text.format ?? { type: 'text' } },
    tool_choice: or('tool_choice', 'auto'),
    tools: or('tools', []),
    top_logprobs: or('top_logprobs', 0),
    top_p: or('top_p', 1),
    presence_penalty: or('presence_penalty', 0),
    frequency_penalty: or('frequency_penalty', 0),
    truncation: or('truncation', 'disabled'),
    usage: state.usage === null ? null : usageObject(state.usage),
    user: or('user', null),
    metadata: or('metadata', {}),
  };
}

function usageObject(usage: Usage): JsonObject {
  return {
    input_tokens: usage.inputTokens,
    input_tokens_details: {
      cached_tokens: usage.cachedInputTokens ?? 0,
      cache_write_tokens: usage.cacheWriteTokens ?? 0,
    },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens ?? 0 },
    total_tokens: usage.inputTokens + usage.outputTokens,
  };
}
