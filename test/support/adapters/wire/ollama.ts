import { type OllamaOptions, ollama } from '../../../../adapters/ollama.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../../../protocol/turn.ts';
import { calling, collect, request } from '../requests.ts';

/** Ollama's wire format. */

type Sent = { url: string; headers: Headers; body: JsonObject };

/** An adapter whose every call is answered with `answer`, and the requests that it sent. */
export function answering(answer: Response | string, options: Partial<OllamaOptions> = {}) {
  const sent: Sent[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    sent.push({
      url: String(input),
      headers: new Headers(init?.headers),
      body: JSON.parse(String(init?.body)),
    });
    return typeof answer === 'string' ? ndjson(answer) : answer.clone();
  };
  return { adapter: ollama({ model: 'qwen3', fetch, ...options }), sent };
}

function ndjson(text: string): Response {
  return new Response(text, { headers: { 'content-type': 'application/x-ndjson' } });
}

export function whole(body: JsonObject): Response {
  return Response.json(body);
}

export const line = (message: JsonObject, more: JsonObject = {}): string =>
  `${JSON.stringify({ model: 'qwen3:8b', message: { role: 'assistant', content: '', ...message }, done: false, ...more })}\n`;
export const DONE = { done: true, done_reason: 'stop', prompt_eval_count: 7, eval_count: 3 };
export const call = (name: string, input: JsonObject, more: JsonObject = {}): JsonObject => ({
  tool_calls: [{ function: { name, arguments: input, ...more } }],
});

export async function streamed(text: string, of: ModelRequest = request('hi')) {
  const deltas = await collect(answering(text).adapter.stream(of, calling()));
  return { deltas, turn: turnIn(deltas) };
}

export function turnIn(deltas: readonly TurnDelta[]): ModelTurn {
  const last = deltas.at(-1);
  if (last?.type !== 'turn') throw new Error('The stream did not end with a turn.');
  return last.turn;
}
