import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ExposedTool, RecordedRequest } from '../wire/response-spec.ts';
import { describeTool, type ToolNames } from './request-tools.ts';

/**
 * A request for a response, whichever API its client speaks. Each API reads its own requests into one, and refuses there
 * what is invalid; what only the service can refuse is named as the client knows it.
 */
export type GatewayRequest = RecordedRequest & {
  input: readonly InputItem[];
  /** The input word for word, for the digest of an `Idempotency-Key`. */
  verbatim?: readonly JsonObject[];
  /** The id of the conversation that the response joins. */
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

/** An item of a request's input. An invalid one is refused where it is read. */
export type InputItem = SentItem | StoredItem;

/** An item that the client sent. */
export type SentItem = {
  type: 'sent';
  /** The item's id. Items of the gateway's output are known by it. */
  id?: string;
  /** What it says. */
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
