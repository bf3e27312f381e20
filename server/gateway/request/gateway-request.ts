import type { Item, MessageItem, Part } from '../../../protocol/item.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import type { BuiltinKind } from '../../builtins/builtin-schemas.ts';
import { invalid } from '../../openai-error.ts';
import type { ExposedTool, Lifetime, RecordedRequest } from '../runs/response-spec.ts';
import { describeTool, type ToolNames } from './request-tools.ts';

/** A request of any of the three APIs, which refuse what is invalid in it. */
export type GatewayRequest = RecordedRequest & {
  input: readonly InputItem[];
  /** The input word for word, for the digest of an `Idempotency-Key`. */
  verbatim?: readonly JsonObject[];
  conversation?: string;
  /** Members of the request body of the model's provider, for what no other field has. */
  providerOptions?: JsonObject;
  api: Api;
  /** Where the model's last message is in the input: see `continued-run.ts`. */
  answered?: { from: number; to: number };
  names: { input: string; tool: ToolNames };
  /** The built-in tools that are left out where they are not available, unless the choice of tools demands one. */
  dispensable?: readonly BuiltinKind[];
};

/** The API that the request came by. */
type Api = 'responses' | 'chat-completions' | 'messages';

/**
 * When the server stops working on a request: when its client's connection ends, because the answer cannot be fetched
 * later, or when the answer is complete. It says nothing about whether the store keeps the run, or whether the response
 * can be retrieved.
 */
export function lifetimeOf({ api, store }: Pick<GatewayRequest, 'api' | 'store'>): Lifetime {
  return api === 'responses' && store !== false ? 'answer' : 'connection';
}

export const OPENAI = 'openai-responses';
export const OPENAI_CHAT = 'openai-chat';

export const OPENAI_NAMES: GatewayRequest['names'] = {
  input: 'input',
  tool: (at, member) => `tools[${at}].${member}`,
};

export type InputItem = SentItem | StoredItem;

export type SentItem = {
  type: 'sent';
  /** Items of the gateway's output are known by it. */
  id?: string;
  items: readonly Item[];
  /** The tool of its call, if that is not a function of the client. */
  tool?: ExposedTool;
  ranHere?: true;
  /** The run that made its call, if the id of the call says so. */
  madeIn?: string;
  /** The item is one that only models of OpenAI's Responses API read. */
  onlyFor?: { type: string; place: string };
  /** The id of its call, if the client sent none: it distinguishes the call only from others in this input. */
  newCallId?: string;
};

export function sent(...items: Item[]): SentItem {
  return { type: 'sent', items };
}

/** Throws a `ResponsesError` for a message without content that is not the model's. */
export function assertContent({ role, content }: Pick<MessageItem, 'role' | 'content'>, place: string): void {
  if (role !== 'assistant' && content.every(part => part.type === 'text' && part.text === ''))
    throw invalid(`${place}.content`, 'message_content_empty', `'${place}.content' is empty.`);
}

export function customCall(call: {
  callId: string;
  name: string;
  input: string;
  more?: JsonObject;
}): SentItem {
  const { callId, name, input, more } = call;
  const written = JSON.stringify({ input });
  const opaque = { provider: OPENAI, data: { as: 'custom_tool_call', ...more } };
  return {
    ...sent({ type: 'tool_call', callId, name, arguments: written, opaque }),
    tool: { kind: 'custom', name },
  };
}

/** `at` is its path in the request. */
type StoredItem =
  | { type: 'item_reference'; id: string; at: string }
  | { type: 'compaction'; id?: string; at: string; content: string };

/** What is stored and shown, without credentials. */
export function recordOf({
  input,
  verbatim,
  conversation,
  providerOptions,
  api,
  answered,
  names,
  dispensable,
  ...kept
}: GatewayRequest): RecordedRequest {
  const addedTools = kept.addedTools?.map(describeTool);
  return { ...kept, tools: kept.tools.map(describeTool), ...omitUndefined({ addedTools }) };
}

/** In the format of the Responses API; `isOutput`: as a part of the model's message. */
export function wirePart(part: Part, { isOutput }: { isOutput: boolean }): JsonObject {
  switch (part.type) {
    case 'text':
      return isOutput
        ? { type: 'output_text', text: part.text, annotations: part.annotations ?? [], logprobs: [] }
        : { type: 'input_text', text: part.text };
    case 'image':
      return { type: 'input_image', image_url: part.url, detail: part.detail ?? 'auto' };
    case 'file':
      return part.url.startsWith('data:')
        ? { type: 'input_file', filename: part.name ?? 'file', file_data: part.url }
        : { type: 'input_file', filename: part.name ?? null, file_url: part.url };
  }
}

/** A call's output that a client sent: one text, if it sent texts only; else parts, which `readContent` reads. */
export function outputOf(parts: readonly Part[], between = ''): JsonValue {
  const texts = parts.flatMap(part => (part.type === 'text' ? [part.text] : []));
  if (texts.length === parts.length) return texts.join(between);
  return parts.map(part => wirePart(part, { isOutput: false }));
}
