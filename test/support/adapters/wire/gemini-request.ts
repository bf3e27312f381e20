import { geminiBody } from '../../../../adapters/gemini/request.ts';
import type { Item } from '../../../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../../../protocol/json.ts';
import type { ModelRequest } from '../../../../protocol/turn.ts';
import { request } from '../requests.ts';

/** Builders of Gemini request bodies. */

export function body(of: ModelRequest, model = 'gemini-2.5-flash', providerOptions?: JsonObject): JsonObject {
  return geminiBody(model, providerOptions)(of);
}

export function contents(transcript: readonly Item[], model?: string): JsonValue | undefined {
  return body(request(transcript), model).contents;
}

export const output = {
  name: 'city',
  schema: { type: 'object', properties: { city: { type: 'string' } } } satisfies JsonObject,
};

export const call = (callId: string, more: Partial<Item & { type: 'tool_call' }> = {}): Item => ({
  type: 'tool_call',
  callId,
  name: 'weather',
  arguments: '{"city":"Rome"}',
  ...more,
});
export const answer = (text: string, more: object = {}): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text }],
  ...more,
});

export const user = (...parts: JsonObject[]): JsonObject => ({ role: 'user', parts });
export const model = (...parts: JsonObject[]): JsonObject => ({ role: 'model', parts });
export const called = (more: JsonObject = {}, name = 'weather') => ({
  functionCall: { name, args: { city: 'Rome' } },
  ...more,
});
export const responded = (response: JsonObject, more: JsonObject = {}, name = 'weather'): JsonObject => ({
  functionResponse: { name, response, ...more },
});
