import type { ControlItem, Item, ProviderItem } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { Usage } from '../../../protocol/turn.ts';
import type { ExposedTool, ServerTool } from '../wire/response-spec.ts';

/** A call and its place among the calls of its turn. */
export type PlacedCall = {
  runId: string;
  turn: number;
  place: number;
  callId: string;
  name: string;
  /** The JSON text that the model wrote. */
  arguments: string;
  gate: boolean;
};

/** The outcome of a call. */
export type CallEnd = { output: JsonValue } | { error: string };

/** A server's tools, as a transcript has them. */
type ToolListItem = Extract<ControlItem, { type: 'tool_list' }>;

/** How an answer ended. As at OpenAI, the limit of tool calls leaves it `completed`. */
export type AnswerEnd = {
  status: 'completed' | 'incomplete' | 'failed' | 'cancelled';
  /** Why it is incomplete, in OpenAI's words. */
  incompleteReason?: string;
  error?: { code: string; message: string };
};

/** A text or a reasoning of the answer. */
type Named = { kind: 'message' | 'reasoning'; id: string };

/**
 * What the answer to one request consists of, as it comes: the part of a run's story that the request's client may see.
 * `id` is the id of an output item of the Responses API; the other protocols use it to tell items apart.
 */
export type AnswerEvent =
  | { type: 'begun' }
  /** The tools of a server that the conversation has not shown before. */
  | { type: 'list'; list: ToolListItem }
  | ({ type: 'opened' } & Named)
  | ({ type: 'text'; text: string } & Named)
  /**
   * `text` is the full text, and `items` what it is made of; empty if it is not known, because the attempt failed or the
   * provider may still seal the reasoning. `seal`: the reasoning with what its provider needs, for clients that keep it.
   */
  | ({
      type: 'closed';
      text: string;
      items: readonly Item[];
      status: 'completed' | 'incomplete';
      seal?: string;
    } & Named)
  /** A compaction that the provider made. */
  | { type: 'compaction'; id: string; content: JsonValue }
  /** A call that the provider ran. */
  | { type: 'provided'; id: string; item: ProviderItem }
  /** A call that the gateway runs; `end` is what became of it. */
  | { type: 'call.started'; call: PlacedCall; tool: ExposedTool }
  | { type: 'call.ended'; call: PlacedCall; tool: ExposedTool; end: CallEnd }
  /** A call of a server's tool that needs an approval. */
  | { type: 'call.asked'; call: PlacedCall; tool: ServerTool }
  /** A call for the client, which knows the tool as `call.name`. */
  | { type: 'call.given'; call: PlacedCall; isCustom: boolean }
  | { type: 'usage'; usage: Usage }
  /**
   * The end, in ms since the epoch. `retryAfter`: of a failed answer, the seconds after which the client may send the same
   * request again; `null` if that would not help, or could repeat what a tool did.
   */
  | { type: 'ended'; at: number; end: AnswerEnd; retryAfter: number | null };

/** Writes an answer in the protocol of a client. */
export interface AnswerWriter<Wire, Whole> {
  /** Takes the next event. */
  take(event: AnswerEvent): void;
  /** Returns and clears what was written since the last call. */
  drain(): Wire[];
  /** Everything written so far, as one object. */
  readonly whole: Whole;
}
