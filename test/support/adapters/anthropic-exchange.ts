import { type AnthropicOptions, anthropic } from '../../../adapters/anthropic.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../../protocol/turn.ts';
import { typedEvents } from './fixtures/sse-body.ts';
import { calling, collect } from './requests.ts';

type Options = Partial<AnthropicOptions>;

/** A whole message with these blocks. */
export function message(
  content: JsonObject[],
  stop_reason: string | null = 'end_turn',
  more: JsonObject = {},
) {
  return {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-test',
    content,
    stop_reason,
    usage: { input_tokens: 10, output_tokens: 5 },
    ...more,
  };
}

export const toolUse = (id: string, name: string, input: JsonObject = {}) => ({
  type: 'tool_use',
  id,
  name,
  input,
});
export const text = (value: string) => ({ type: 'text', text: value });

export const started = (id = 'msg_1', usage: JsonObject = { input_tokens: 10, output_tokens: 1 }) => ({
  type: 'message_start',
  message: { ...message([], null, { id }), usage },
});
export const begun = (index: number, content_block: JsonObject) => ({
  type: 'content_block_start',
  index,
  content_block,
});
export const delta = (index: number, more: JsonObject) => ({
  type: 'content_block_delta',
  index,
  delta: more,
});
export const json = (index: number, partial_json: string) =>
  delta(index, { type: 'input_json_delta', partial_json });
export const stopped = (index: number) => ({ type: 'content_block_stop', index });
export const ended = (stop_reason: string, usage: JsonObject = { output_tokens: 5 }) => [
  { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
  { type: 'message_stop' },
];

/** An adapter whose provider returns these responses in turn, and the requests that it received. */
export function answering(answers: readonly Response[], options: Options = {}) {
  const sent: JsonObject[] = [];
  const adapter = anthropic({
    model: 'claude-sonnet-4-5',
    apiKey: 'test',
    fetch: async (_, init) => {
      sent.push(JSON.parse(String(init?.body)));
      return answers[Math.min(sent.length, answers.length) - 1]?.clone() ?? Response.error();
    },
    ...options,
  });
  return { adapter, sent };
}

export const jsonReply = (body: JsonObject, status = 200, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
const streamReply = (...events: JsonObject[]) =>
  new Response(typedEvents(events), { headers: { 'content-type': 'text/event-stream' } });

/** The body that is sent for the request. */
export async function bodyFor(request: ModelRequest, options: Options = {}): Promise<JsonObject> {
  const { adapter, sent } = answering([jsonReply(message([text('ok')]))], options);
  await adapter.generate(request, calling());
  return sent[0] ?? {};
}

export function turnFor(body: JsonObject, request: ModelRequest, options: Options = {}): Promise<ModelTurn> {
  return answering([jsonReply(body)], options).adapter.generate(request, calling());
}

export async function streamFor(
  events: readonly JsonObject[],
  request: ModelRequest,
  options: Options = {},
): Promise<{ turn: ModelTurn; deltas: TurnDelta[] }> {
  const { adapter } = answering([streamReply(...events)], options);
  const deltas = await collect(adapter.stream(request, calling()));
  const last = deltas.pop();
  if (last?.type !== 'turn') throw new Error('Expected the stream to end with a turn.');
  return { turn: last.turn, deltas };
}
