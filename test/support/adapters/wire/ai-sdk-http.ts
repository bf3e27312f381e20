import { expect } from 'vitest';
import type { ModelAdapter } from '../../../../protocol/adapter.ts';
import type { Item } from '../../../../protocol/item.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { userMessage } from '../../../../protocol/message.ts';
import type { ModelRequest, ModelTurn } from '../../../../protocol/turn.ts';
import { sse } from '../replay-server.ts';
import { calling, collect, request, result, sumOf } from '../requests.ts';

/** The provider packages of the AI SDK, with a `fetch` that answers in place of the provider. */

export const tool = {
  name: 'weather',
  description: 'The weather.',
  inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

/** A `fetch` that returns the given responses in order, and the requests that it received. */
export function replaying(...answers: (() => Response)[]): { fetch: typeof fetch; bodies: JsonObject[] } {
  const bodies: JsonObject[] = [];
  return {
    bodies,
    fetch: async (_, init) => {
      bodies.push(JSON.parse(String(init?.body)));
      const answer = answers[bodies.length - 1];
      if (!answer) throw new Error('no more answers');
      return answer();
    },
  };
}

export const whole = (body: JsonObject) => () => Response.json(body);
export const stream = (events: JsonObject[]) => () =>
  new Response(sse(...events), { headers: { 'content-type': 'text/event-stream' } });

export async function turnOf(
  adapter: ModelAdapter,
  of: ModelRequest,
  streaming: boolean,
): Promise<ModelTurn> {
  if (!streaming) return adapter.generate(of, calling());
  const deltas = await collect(adapter.stream(of, calling()));
  const last = deltas.at(-1);
  if (last?.type !== 'turn') throw new Error('The stream did not end with a turn.');
  const { text, reasoning, toolCalls } = last.turn;
  const calls = toolCalls.map(call => [call.name, call.arguments]);
  expect(sumOf(deltas)).toEqual({ text, reasoning, calls });
  return last.turn;
}

/** Two rounds of a run with a JSON round trip of the transcript in between. */
export async function twoRounds(adapter: ModelAdapter, of: Partial<ModelRequest>, streaming: boolean) {
  const transcript = [userMessage('Weather in Oslo?')];
  const first = await turnOf(adapter, request(transcript, of), streaming);
  const items: Item[] = JSON.parse(JSON.stringify(first.items));
  const answered = first.toolCalls.map(call => result(call.callId, 'rain'));
  const second = await turnOf(adapter, request([...transcript, ...items, ...answered], of), streaming);
  return { first, second };
}
