import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { type ClientCall, callsIn, citationsIn, refusalIn, textIn } from './response-output.ts';

/** The id of a call for the client. `place` counts the calls of the response from 0. */
export type NameCall = (call: ClientCall, place: number) => string;

/** The completion object of a finished response. */
export function completionOf(response: JsonObject, nameCall: NameCall): JsonObject {
  const calls = callsIn(response);
  const content = textIn(response, 'message');
  const refusal = refusalIn(response);
  const reasoning = textIn(response, 'reasoning');
  const annotations = citationsIn(response);
  const toolCalls = calls.map((call, place) => toolCall(call, nameCall(call, place)));
  const message: JsonObject = {
    role: 'assistant',
    content: content === '' && (calls.length > 0 || refusal !== '') ? null : content,
    refusal: refusal || null,
    ...omitUndefined({
      reasoning_content: reasoning || undefined,
      annotations: annotations.length > 0 ? annotations : undefined,
      tool_calls: calls.length > 0 ? toolCalls : undefined,
    }),
  };
  const choice = { index: 0, message, logprobs: null, finish_reason: finishReasonOf(response) };
  const usage = usageOf(response);
  return {
    ...headOf(response, 'chat.completion'),
    choices: [choice],
    ...omitUndefined({ usage: usage ?? undefined }),
  };
}

/** The members that a completion and its chunks share. */
export function headOf(response: JsonObject, object: string): JsonObject {
  const { id, created_at, model, service_tier = null } = response;
  return {
    id: String(id).replace(/^resp_/, 'chatcmpl-'),
    object,
    created: created_at ?? 0,
    model: model ?? '',
    service_tier,
  };
}

/** A call in the format of a completion. */
function toolCall({ type, name, written }: ClientCall, id: string): JsonObject {
  return { id, type, ...callPart(type, written, name) };
}

/** The text of a call, or a piece of it, as the member of its type. */
export function callPart(type: ClientCall['type'], written: string, name?: string): JsonObject {
  const named = omitUndefined({ name });
  return type === 'custom'
    ? { custom: { ...named, input: written } }
    : { function: { ...named, arguments: written } };
}

/** Why a response ended. An answer that any limit or a call in doubt cut off has the reason `length`. */
export function finishReasonOf(response: JsonObject): string {
  const { status, incomplete_details: details } = response;
  if (callsIn(response).length > 0) return 'tool_calls';
  if (status !== 'incomplete') return 'stop';
  return isJsonObject(details) && details.reason === 'content_filter' ? 'content_filter' : 'length';
}

/** The usage of a response; `null` if the provider did not report it. */
export function usageOf({ usage }: JsonObject): JsonObject | null {
  if (!isJsonObject(usage)) return null;
  const { input_tokens, input_tokens_details, output_tokens, output_tokens_details, total_tokens } = usage;
  return {
    prompt_tokens: input_tokens ?? 0,
    completion_tokens: output_tokens ?? 0,
    total_tokens: total_tokens ?? 0,
    prompt_tokens_details: { cached_tokens: detail(input_tokens_details, 'cached_tokens') },
    completion_tokens_details: { reasoning_tokens: detail(output_tokens_details, 'reasoning_tokens') },
  };
}

function detail(details: JsonValue | undefined, name: string): JsonValue {
  return isJsonObject(details) ? (details[name] ?? 0) : 0;
}
