import { type GeminiOptions, gemini } from '../../../../adapters/gemini.ts';
import type { Item } from '../../../../protocol/item.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import type { ModelRequest, ModelTurn, TurnDelta } from '../../../../protocol/turn.ts';
import { calling, collect, request } from '../requests.ts';

/** Answers of Gemini's Interactions API, the turns that the adapter makes of them, and its requests. */

export const SEARCH = [
  { type: 'google_search_call', id: 's1', signature: 'sig-1', arguments: { queries: ['q'] } },
  {
    type: 'google_search_result',
    call_id: 's1',
    signature: 'sig-2',
    result: [{ search_suggestions: '<b>' }],
  },
];
export const thought = (signature: string, ...texts: string[]): JsonObject => ({
  type: 'thought',
  signature,
  ...(texts.length > 0 ? { summary: texts.map(text => ({ type: 'text', text })) } : {}),
});
export const says = (...content: (string | JsonObject)[]): JsonObject => ({
  type: 'model_output',
  content: content.map(part => (typeof part === 'string' ? { type: 'text', text: part } : part)),
});
export const call = (id: string, name = 'look', more: JsonObject = {}): JsonObject => ({
  type: 'function_call',
  id,
  name,
  arguments: { a: 1 },
  ...more,
});

export function interaction(steps: JsonObject[], more: JsonObject = {}): JsonObject {
  const isOpen = steps.some(({ type }) => type === 'function_call');
  const status = isOpen ? 'requires_action' : 'completed';
  return { id: 'v1_1', object: 'interaction', status, model: 'gemini-3.8-flash', steps, ...more };
}

/** A stream of these steps, each whole in its start, and of the rest of the interaction at its end. */
export function events(body: JsonObject, ...between: JsonObject[]): string {
  const { steps, ...rest } = body;
  const begun = (Array.isArray(steps) ? steps : []).flatMap((step, index) => [
    { event_type: 'step.start', index, step },
    { event_type: 'step.stop', index },
  ]);
  const all = [
    { event_type: 'interaction.created', interaction: { id: rest.id ?? '', status: 'in_progress' } },
    ...begun,
    ...between,
    { event_type: 'interaction.completed', interaction: rest },
  ];
  return `${all.map(data => `event: ${data.event_type}\ndata: ${JSON.stringify(data)}\n\n`).join('')}event: done\ndata: [DONE]\n\n`;
}

/** The events of one step, which has these pieces. */
export function pieces(index: number, step: JsonObject, ...deltas: JsonObject[]): JsonObject[] {
  return [
    { event_type: 'step.start', index, step },
    ...deltas.map((delta): JsonObject => ({ event_type: 'step.delta', index, delta })),
    { event_type: 'step.stop', index },
  ];
}

/** An adapter whose provider answers its calls with these, the last one from then on, and the bodies that it sent. */
export function answering(
  answers: readonly (JsonObject | string)[],
  { status = 200, ...options }: Partial<GeminiOptions> & { status?: number } = {},
) {
  const bodies: JsonObject[] = [];
  const urls: string[] = [];
  const fetch: typeof globalThis.fetch = async (input, init) => {
    urls.push(String(input));
    bodies.push(JSON.parse(String(init?.body)));
    const answer = answers[Math.min(bodies.length, answers.length) - 1] ?? {};
    if (typeof answer === 'string')
      return new Response(answer, { headers: { 'content-type': 'text/event-stream' } });
    return Response.json(answer, { status: 'error' in answer ? 404 : status });
  };
  const adapter = gemini({
    model: 'gemini-3.8-flash',
    apiKey: 'test',
    baseURL: 'http://provider.test',
    fetch,
    ...options,
    api: 'interactions',
  });
  return { adapter, bodies, urls };
}

export function generate(body: JsonObject): Promise<ModelTurn> {
  return answering([body]).adapter.generate(request('hi'), calling());
}

export async function stream(text: string): Promise<{ turn: ModelTurn; deltas: TurnDelta[] }> {
  const deltas = await collect(answering([text]).adapter.stream(request('hi'), calling()));
  const last = deltas.pop();
  if (last?.type !== 'turn') throw new Error('Expected the stream to end with a turn.');
  return { turn: last.turn, deltas };
}

/** The body that a new adapter sends for a request. */
export async function bodyOf(
  transcript: readonly Item[] | string,
  more: Partial<ModelRequest> = {},
  options: Partial<GeminiOptions> = {},
): Promise<JsonObject> {
  const { adapter, bodies } = answering([interaction([says('ok')])], options);
  await adapter.generate(request(transcript, more), calling());
  return bodies[0] ?? {};
}
