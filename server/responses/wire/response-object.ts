import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
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
  const { settings, openai } = request;
  return {
    id,
    object: 'response',
    created_at: Math.floor(createdAt / 1000),
    ...omitUndefined({ conversation: spec.conversation && { id: spec.conversation.id } }),
    completed_at: state.completedAt === null ? null : Math.floor(state.completedAt / 1000),
    status: state.status,
    background: request.background ?? false,
    error: state.error,
    incomplete_details: state.incompleteReason === null ? null : { reason: state.incompleteReason },
    instructions: request.instructions ?? null,
    max_output_tokens: settings.maxOutputTokens ?? null,
    max_tool_calls: request.maxToolCalls ?? null,
    model: request.model ?? spec.model,
    output: [...state.output],
    parallel_tool_calls: settings.parallelToolCalls ?? true,
    previous_response_id: request.previousResponseId ?? null,
    prompt_cache_key: openai.prompt_cache_key ?? null,
    reasoning: { effort: settings.reasoningEffort ?? null, summary: request.reasoningSummary ?? null },
    safety_identifier: openai.safety_identifier ?? null,
    service_tier: openai.service_tier ?? 'default',
    store: request.store ?? true,
    temperature: settings.temperature ?? 1,
    text: { ...request.text, format: request.text?.format ?? { type: 'text' } },
    tool_choice: request.toolChoice ?? 'auto',
    tools: [...request.tools],
    top_logprobs: 0,
    top_p: settings.topP ?? 1,
    presence_penalty: openai.presence_penalty ?? 0,
    frequency_penalty: openai.frequency_penalty ?? 0,
    truncation: openai.truncation ?? 'disabled',
    usage: state.usage === null ? null : usageObject(state.usage),
    user: openai.user ?? null,
    metadata: openai.metadata ?? {},
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
