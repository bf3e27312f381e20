import type { ChatOptions } from '../../../adapters/chat/adapter.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ModelRequest, ModelTurn, ToolDefinition, TurnDelta } from '../../../protocol/turn.ts';
import { calling, collect, request } from './requests.ts';

type Open = (options: ChatOptions) => ModelAdapter;

export const tool: ToolDefinition = {
  name: 'get_weather',
  description: 'The weather.',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

/** A stream event with this delta and further members of the chunk or its choice. */
export function chunk(delta: JsonObject, choice: JsonObject = {}, more: JsonObject = {}): JsonObject {
  const choices = [{ index: 0, delta, finish_reason: null, ...choice }];
  return { id: 'c', object: 'chat.completion.chunk', model: 'm-1', choices, ...more };
}

/** The event that ends a response. */
export function ended(finish = 'stop', more: JsonObject = {}): JsonObject {
  return chunk({}, { finish_reason: finish }, more);
}

/** A fragment of a call. */
export function piece(call: JsonObject): JsonObject {
  return chunk({ tool_calls: [call] });
}

/** The body of a stream; it has no `[DONE]` unless that is one of the events. */
export function sse(...events: (JsonObject | string)[]): string {
  return events
    .map(event => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)
    .join('');
}

/** A whole body with this message. */
export function completion(
  message: JsonObject,
  finish: string | null = 'stop',
  more: JsonObject = {},
): JsonObject {
  const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }];
  return { id: 'c', object: 'chat.completion', model: 'm-1', choices, ...more };
}

/** An adapter whose provider answers every call with this response. */
export function answering(
  open: Open,
  body: string,
  { type = 'text/event-stream', status = 200, model = 'm' } = {},
): ModelAdapter {
  return open({
    model,
    apiKey: 'test',
    baseURL: 'http://provider.test/v1',
    fetch: async () => new Response(body, { status, headers: { 'content-type': type } }),
  });
}

export async function stream(
  open: Open,
  ...events: (JsonObject | string)[]
): Promise<{ turn: ModelTurn; deltas: TurnDelta[] }> {
  const deltas = await collect(answering(open, sse(...events)).stream(request('hi'), calling()));
  const last = deltas.pop();
  if (last?.type !== 'turn') throw new Error('Expected the stream to end with a turn.');
  return { turn: last.turn, deltas };
}

export function generate(open: Open, body: JsonObject): Promise<ModelTurn> {
  return answering(open, JSON.stringify(body), { type: 'application/json' }).generate(
    request('hi'),
    calling(),
  );
}

/** The body that a call sends. */
export async function sentBy(
  open: Open,
  of: ModelRequest,
  options: Partial<ChatOptions> = {},
  streamed = false,
): Promise<JsonObject> {
  let sent: JsonObject = {};
  const adapter = open({
    model: 'm',
    apiKey: 'test',
    baseURL: 'http://provider.test/v1',
    ...options,
    fetch: async (_, init) => {
      sent = JSON.parse(String(init?.body));
      const answer = streamed ? sse(ended()) : JSON.stringify(completion({ content: 'ok' }));
      return new Response(answer, {
        headers: { 'content-type': streamed ? 'text/event-stream' : 'application/json' },
      });
    },
  });
  if (streamed) await collect(adapter.stream(of, calling()));
  else await adapter.generate(of, calling());
  return sent;
}

/** The messages that are sent for a transcript. */
export async function messagesBy(
  open: Open,
  transcript: readonly Item[],
  options: Partial<ChatOptions> = {},
): Promise<JsonObject[]> {
  return (await sentBy(open, request(transcript), options)).messages as JsonObject[];
}

export function call(callId: string, more: Partial<Extract<Item, { type: 'tool_call' }>> = {}): Item {
  return { type: 'tool_call', callId, name: 'get_weather', arguments: '{}', ...more };
}

export function assistant(text: string): Item {
  return { type: 'message', role: 'assistant', content: [{ type: 'text', text }] };
}

/** The items of a turn as a store returns them. */
export function stored(turn: ModelTurn): Item[] {
  return JSON.parse(JSON.stringify(turn.items));
}
