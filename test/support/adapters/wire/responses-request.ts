import type { ResponsesDialect } from '../../../../adapters/responses/dialect.ts';
import { type BodyOptions, responsesBody } from '../../../../adapters/responses/request.ts';
import type { Item } from '../../../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../../../protocol/json.ts';
import type { ModelRequest } from '../../../../protocol/turn.ts';
import { request } from '../requests.ts';

/** Builders of Responses request bodies. */

export const DIALECT: ResponsesDialect = {
  provider: 'openai-responses',
  keyVariables: [''],
  baseURLVariable: '',
  defaultBaseURL: '',
  remembers: true,
  customTools: 'client',
  reasons: () => false,
};
export const OPTIONS: BodyOptions = {
  model: 'gpt-4.1',
  store: true,
  encryptedReasoning: false,
  providerOptions: undefined,
};

export function body(of: ModelRequest, options: Partial<BodyOptions & { stream: boolean }> = {}): JsonObject {
  const { stream = false, ...more } = options;
  return responsesBody(DIALECT, { ...OPTIONS, ...more })(of, { stream });
}

export function input(
  transcript: readonly Item[],
  options: Partial<BodyOptions> = {},
): JsonValue | undefined {
  return body(request(transcript), options).input;
}

export const mine = (data: JsonValue) => ({ provider: 'openai-responses', data });

export const reasoning = (id: string, before: string, encrypted: string | null = 'secret'): Item => ({
  type: 'reasoning',
  text: 'hm',
  opaque: mine({ item: { type: 'reasoning', id, summary: [], encrypted_content: encrypted }, before }),
});
export const call = (callId: string, data: JsonValue = {}): Item => ({
  type: 'tool_call',
  callId,
  name: 'get_weather',
  arguments: '{}',
  opaque: mine(data),
});
export const answer = (text: string, data?: JsonValue): Item => ({
  type: 'message',
  role: 'assistant',
  content: [{ type: 'text', text }],
  ...(data === undefined ? {} : { opaque: mine(data) }),
});
