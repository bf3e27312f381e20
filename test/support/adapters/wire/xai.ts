import { replayFetch } from '../../../../adapters/conformance.ts';
import { type XaiOptions, xai } from '../../../../adapters/xai.ts';
import type { Item } from '../../../../protocol/item.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import type { ModelRequest, ModelTurn } from '../../../../protocol/turn.ts';
import { sse } from '../replay-server.ts';
import { calling, result } from '../requests.ts';

/** xAI's wire format of the Responses API. */

export const thought = (id: string, encrypted: string, text = ''): JsonObject => ({
  id,
  type: 'reasoning',
  status: 'completed',
  summary: text === '' ? [] : [{ type: 'summary_text', text }],
  encrypted_content: encrypted,
});
const lookUp = (id: string, callId: string, city: string): JsonObject => ({
  id,
  type: 'function_call',
  status: 'completed',
  call_id: callId,
  name: 'look_up',
  arguments: `{"city":"${city}"}`,
});
export const said = (text: string): JsonObject => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, logprobs: [], annotations: [] }],
});
export const response = (output: JsonObject[], more: JsonObject = {}): JsonObject => ({
  id: 'b8e2c1d0-0000-4000-8000-000000000001',
  object: 'response',
  model: 'grok-4.3',
  status: 'completed',
  store: true,
  error: null,
  output,
  usage: {
    input_tokens: 340,
    input_tokens_details: { cached_tokens: 192 },
    output_tokens: 127,
    output_tokens_details: { reasoning_tokens: 105 },
    num_server_side_tools_used: 0,
  },
  ...more,
});

export const CALLS = response([
  thought('rs_1', 'c2VjcmV0+/=', 'Two cities.\n'),
  lookUp('fc_1_0', 'call-77aa-0', 'Berlin'),
  lookUp('fc_1_1', 'call-77aa-1', 'Oslo'),
]);

/** An output item as it is before its first delta. */
function begin(item: JsonObject): JsonObject {
  if (item.type === 'function_call') return { ...item, arguments: '', status: 'in_progress' };
  if (item.type === 'custom_tool_call') return { ...item, input: '', status: 'in_progress' };
  return { id: item.id ?? null, type: item.type ?? null, role: item.role ?? null, summary: [], content: [] };
}

export function events(whole: JsonObject): string {
  const output = whole.output as JsonObject[];
  const deltas = output.flatMap((item, output_index) => {
    const id = item.id ?? null;
    const event = (type: string, more: JsonObject) => ({ type, output_index, item_id: id, ...more });
    const summary = (item.summary ?? []) as JsonObject[];
    const content = (item.content ?? []) as JsonObject[];
    return [
      event('response.output_item.added', { item: begin(item) }),
      ...summary.map(part =>
        event('response.reasoning_summary_text.delta', { summary_index: 0, delta: part.text ?? '' }),
      ),
      ...content.map(part =>
        event('response.output_text.delta', { content_index: 0, delta: part.text ?? '' }),
      ),
      ...(item.type === 'function_call'
        ? [event('response.function_call_arguments.delta', { delta: item.arguments ?? '' })]
        : []),
      ...(item.type === 'custom_tool_call'
        ? [event('response.custom_tool_call_input.delta', { delta: item.input ?? '' })]
        : []),
      event('response.output_item.done', { item }),
    ];
  });
  return sse({ type: 'response.created', response: { status: 'in_progress' } }, ...deltas, {
    type: 'response.completed',
    response: whole,
  });
}

const JSON_TYPE = { 'content-type': 'application/json' };
export const answer = (body: JsonObject, status = 200) => ({
  status,
  headers: JSON_TYPE,
  chunks: [JSON.stringify(body)],
});

export async function ask(
  modelRequest: ModelRequest,
  body: JsonObject = response([said('ok')]),
  options: Partial<XaiOptions> = {},
): Promise<{ turn: ModelTurn; body: JsonObject; headers: Record<string, string>; path: string }> {
  const { fetch, requests } = replayFetch(answer(body));
  const adapter = xai({ model: 'grok-4.3', apiKey: 'xai-test-key', fetch, ...options });
  const turn = await adapter.generate(modelRequest, calling());
  const sent = requests[0];
  if (!sent) throw new Error('Expected a request.');
  return { turn, body: sent.body, headers: sent.headers, path: sent.path };
}

export const results: Item[] = [result('call-77aa-0', '15 °C'), result('call-77aa-1', '3 °C')];
