import type { ResponsesRequest } from './request.ts';

type OutputText = { type: 'output_text'; annotations: never[]; logprobs: never[]; text: string };
type OutputMessage = {
  id: string;
  type: 'message';
  status: 'in_progress' | 'completed';
  role: 'assistant';
  phase: 'commentary' | 'final_answer';
  content: OutputText[];
};
type OutputCall = {
  id: string;
  type: 'function_call';
  status: 'in_progress' | 'completed';
  arguments: string;
  call_id: string;
  name: string;
};
export type OutputItem = OutputMessage | OutputCall;

type ResponseUsage = {
  input_tokens: number;
  input_tokens_details: { cached_tokens: number };
  output_tokens: number;
  output_tokens_details: { reasoning_tokens: number };
  total_tokens: number;
};

/** A complete response: the body of `POST /v1/responses` without `stream`. */
export type CompletedResponse = ReturnType<typeof completeResponse>;

type StreamEvent = { type: string; sequence_number: number; [field: string]: unknown };

/** Returns the complete response to a request. */
export function completeResponse(
  request: ResponsesRequest,
  made: { id: string; output: OutputItem[]; usage: ResponseUsage },
) {
  return {
    id: made.id,
    object: 'response' as const,
    created_at: 0,
    status: 'completed' as const,
    background: false,
    completed_at: 0,
    error: null,
    incomplete_details: null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: null,
    model: 'stand-in',
    output: made.output,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: request.previous_response_id ?? null,
    reasoning: { effort: null, summary: null },
    service_tier: 'default',
    store: request.store ?? true,
    temperature: request.temperature ?? 1,
    text: { format: { type: 'text' } },
    tool_choice: request.tool_choice ?? 'auto',
    tools: request.tools ?? [],
    top_p: request.top_p ?? 1,
    truncation: 'disabled',
    usage: made.usage,
    user: null,
    metadata: request.metadata ?? {},
  };
}

/** Returns the events of a streamed response, in OpenAI's order, one item after the other. */
export function* listEvents(response: CompletedResponse): Generator<StreamEvent> {
  let sequence = 0;
  const event = (type: string, fields: Record<string, unknown>): StreamEvent => ({
    type,
    ...fields,
    sequence_number: sequence++,
  });
  const begun = { ...response, status: 'in_progress', completed_at: null, output: [], usage: null };
  yield event('response.created', { response: begun });
  yield event('response.in_progress', { response: begun });
  for (const [output_index, item] of response.output.entries()) {
    const place = { item_id: item.id, output_index };
    const empty = item.type === 'message' ? { content: [] } : { arguments: '' };
    yield event('response.output_item.added', {
      item: { ...item, status: 'in_progress', ...empty },
      output_index,
    });
    if (item.type === 'function_call') {
      for (const delta of item.arguments.match(/[\s\S]{1,24}/gu) ?? []) {
        yield event('response.function_call_arguments.delta', { ...place, delta });
      }
      yield event('response.function_call_arguments.done', {
        ...place,
        arguments: item.arguments,
        name: item.name,
      });
    } else {
      for (const [content_index, part] of item.content.entries()) {
        const at = { ...place, content_index };
        yield event('response.content_part.added', { ...at, part: { ...part, text: '' } });
        for (const delta of part.text.match(/\s*\S+|\s+$/g) ?? []) {
          yield event('response.output_text.delta', { ...at, delta, logprobs: [] });
        }
        yield event('response.output_text.done', { ...at, text: part.text, logprobs: [] });
        yield event('response.content_part.done', { ...at, part });
      }
    }
    yield event('response.output_item.done', { item, output_index });
  }
  yield event('response.completed', { response });
}
