import { gemini } from '../../../../adapters/gemini.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import type { ModelTurn, TurnDelta } from '../../../../protocol/turn.ts';
import { calling, collect, request } from '../requests.ts';

/** Gemini's responses, and the turns that the adapter makes of them. */

/** An adapter whose provider answers every call with this body. */
export function answering(body: string, type = 'text/event-stream') {
  return gemini({
    model: 'gemini-3-flash',
    apiKey: 'test',
    baseURL: 'http://provider.test',
    fetch: async () => new Response(body, { headers: { 'content-type': type } }),
  });
}

export const events = (...all: JsonObject[]) =>
  all.map(event => `data: ${JSON.stringify(event)}\n\n`).join('');

export async function stream(...all: JsonObject[]): Promise<{ turn: ModelTurn; deltas: TurnDelta[] }> {
  const deltas = await collect(answering(events(...all)).stream(request('hi'), calling()));
  const last = deltas.pop();
  if (last?.type !== 'turn') throw new Error('Expected the stream to end with a turn.');
  return { turn: last.turn, deltas };
}

export function generate(response: JsonObject): Promise<ModelTurn> {
  return answering(JSON.stringify(response), 'application/json').generate(request('hi'), calling());
}

/** One response with these parts; the last one of a stream has a finish reason. */
export function says(parts: JsonObject[], finishReason?: string, more: JsonObject = {}): JsonObject {
  return {
    candidates: [{ content: { role: 'model', parts }, index: 0, ...(finishReason ? { finishReason } : {}) }],
    ...more,
  };
}

export const text = (value: string, more: JsonObject = {}): JsonObject => ({ text: value, ...more });
export const call = (name: string, args: JsonObject = {}, more: JsonObject = {}): JsonObject => ({
  functionCall: { name, args },
  ...more,
});
