import type { Item, MessageItem, Part, ToolCallItem } from '../../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { invalid } from '../../openai-error.ts';
import type { ExposedTool, RecordedRequest } from '../runs/response-spec.ts';
import { describeTool, type ToolNames } from './request-tools.ts';

/**
 * A request for a response, whichever API its client speaks. Each API reads its own requests into one, and refuses there
 * what is invalid; what only the service can refuse is named as the client knows it.
 */
export type GatewayRequest = RecordedRequest & {
  input: readonly InputItem[];
  /** The input word for word, for the digest of an `Idempotency-Key`. */
  verbatim?: readonly JsonObject[];
  conversation?: string;
  /** Members of the request body of the model's provider, for what no other field has. */
  providerOptions?: JsonObject;
  /**
   * Where the model's last message is in the input. If the request answers its calls, it may continue their run: see
   * `continued-run.ts`.
   */
  answered?: { from: number; to: number };
  /** The client's names of the input and of its tools. */
  names: { input: string; tool: ToolNames };
};

export const OPENAI = 'openai-responses';

export const OPENAI_NAMES: GatewayRequest['names'] = {
  input: 'input',
  tool: (at, member) => `tools[${at}].${member}`,
};

/** An item of a request's input. An invalid one is refused where it is read. */
export type InputItem = SentItem | StoredItem;

/** An item that the client sent. */
export type SentItem = {
  type: 'sent';
  /** The item's id. Items of the gateway's output are known by it. */
  id?: string;
  items: readonly Item[];
  /** The tool of its call, if that is no function of the client. */
  tool?: ExposedTool;
  /** Its call ran on a server. */
  ranHere?: true;
  /** The id of its call, if the client sent none: it distinguishes the call only from others in this input. */
  newCallId?: string;
};

/** Transcript items as one item that the client sent. */
export function sent(...items: Item[]): SentItem {
  return { type: 'sent', items };
}

/** A message, which must have content unless it is the model's. Throws a `ResponsesError`. */
export function sentMessage(message: MessageItem, place: string): SentItem {
  const { role, content } = message;
  if (role !== 'assistant' && content.every(part => part.type === 'text' && part.text === ''))
    throw invalid(`${place}.content`, 'message_content_empty', `'${place}.content' is empty.`);
  return sent(message);
}

/** The call of a custom tool, with the input as its only argument. */
export function customCall(call: { callId: string; name: string; input: string }): SentItem {
  const { callId, name, input } = call;
  const item: ToolCallItem = {
    type: 'tool_call',
    callId,
    name,
    arguments: JSON.stringify({ input }),
    opaque: { provider: OPENAI, data: { custom: true } },
  };
  return { ...sent(item), tool: { kind: 'custom', name } };
}

/** An item whose content the server has. `at` is its path in the request. */
type StoredItem =
  | { type: 'item_reference'; id: string; at: string }
  | { type: 'compaction'; id?: string; at: string; content: string };

/** The part of a request that is stored and shown, without credentials. */
export function recordOf({
  input,
  verbatim,
  conversation,
  providerOptions,
  answered,
  names,
  ...kept
}: GatewayRequest): RecordedRequest {
  return { ...kept, tools: kept.tools.map(describeTool) };
}

/** A part of a message or a result in the API's format; `isOutput`: as a part of the model's message. */
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

/**
 * The output of a call that a client sent: one text, if it sent texts only; else the parts in the format of the Responses
 * API, which `readContent` reads.
 */
export function outputOf(parts: readonly Part[], between = ''): JsonValue {
  const texts = parts.flatMap(part => (part.type === 'text' ? [part.text] : []));
  if (texts.length === parts.length) return texts.join(between);
  return parts.map(part => wirePart(part, { isOutput: false }));
}
