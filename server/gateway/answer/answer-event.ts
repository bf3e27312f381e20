import type { ControlItem, Item } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { refusalOf } from '../../../protocol/message.ts';
import type { Usage } from '../../../protocol/turn.ts';
import type { BuiltinKind } from '../../builtins/builtin-schemas.ts';
import type { ExposedTool, ServerTool } from '../runs/response-spec.ts';

/** A call and its place among the calls of its turn. */
export type PlacedCall = {
  runId: string;
  turn: number;
  place: number;
  callId: string;
  name: string;
  arguments: string;
  gate: boolean;
};

export type CallEnd = { output: JsonValue } | { error: string };

type ToolListItem = Extract<ControlItem, { type: 'tool_list' }>;

/** How an answer ended. As at OpenAI, the limit of tool calls leaves it `completed`. */
export type AnswerEnd = {
  status: 'completed' | 'incomplete' | 'failed' | 'cancelled';
  incompleteReason?: string;
  error?: { code: string; message: string };
};

type Named = { kind: 'message' | 'reasoning'; id: string };

/**
 * What the answer to one request consists of, as it comes: the part of a run's story that the request's client may see.
 * `id` is the id of an output item of the Responses API; the other protocols use it to tell items apart.
 */
export type AnswerEvent =
  | { type: 'begun' }
  /** The tools of a server that the conversation has not shown before. */
  | { type: 'list'; id: string; list: ToolListItem }
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
  /** A call of a built-in tool that the provider ran, as OpenAI's API shows it. */
  | { type: 'provided'; id: string; builtin: BuiltinKind; item: JsonObject }
  /** A call that the gateway runs; `end` is what became of it. */
  | { type: 'call.started'; id: string; call: PlacedCall; tool: ExposedTool }
  | { type: 'call.ended'; id: string; call: PlacedCall; tool: ExposedTool; end: CallEnd }
  /** A call of a server's tool that needs an approval. */
  | { type: 'call.asked'; id: string; call: PlacedCall; tool: ServerTool }
  /** A call for the client, which knows the tool as `call.name`. */
  | { type: 'call.given'; id: string; call: PlacedCall; isCustom: boolean }
  | { type: 'usage'; usage: Usage }
  /**
   * The end, in ms since the epoch. `retryAfter`: of a failed answer, the seconds after which the client may send the same
   * request again; `null` if that would not help, or could repeat what a tool did.
   */
  | { type: 'ended'; at: number; end: AnswerEnd; retryAfter: number | null };

const COMPLETE = [
  'list',
  'closed',
  'compaction',
  'provided',
  'call.ended',
  'call.asked',
  'call.given',
] as const;

/** An event with an item of the answer that is complete. */
export type CompleteEvent = Extract<AnswerEvent, { type: (typeof COMPLETE)[number] }>;

/** Whether the event has an item of the answer that is complete. */
export function isComplete(event: AnswerEvent): event is CompleteEvent {
  return COMPLETE.some(type => type === event.type);
}

/** Writes an answer in the protocol of a client. */
export interface AnswerWriter<Wire, Whole> {
  take(event: AnswerEvent): void;
  /** Returns and clears what was written since the last call. */
  drain(): Wire[];
  /** Everything written so far, as one object. */
  readonly whole: Whole;
}

/** Adds two usages. An unknown count does not change the other. */
export function addUsages(one: Usage | null, other: Usage): Usage {
  if (one === null) return other;
  const sum = (a: number | null, b: number | null) => (a === null || b === null ? (a ?? b) : a + b);
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    cachedInputTokens: sum(one.cachedInputTokens, other.cachedInputTokens),
    cacheWriteTokens: sum(one.cacheWriteTokens, other.cacheWriteTokens),
    reasoningTokens: sum(one.reasoningTokens, other.reasoningTokens),
  };
}

/** The words with which a provider refused, if they are apart from the text of the message; otherwise empty. */
export function refusalIn(items: readonly Item[]): string {
  return items.map(refusalOf).join('');
}

/** What the provider says about places of the text, such as the sources that it cites. */
export function annotationsOf(items: readonly Item[]): JsonValue[] {
  const parts = items.flatMap(item => (item.type === 'message' ? item.content : []));
  return parts.flatMap(part => (part.type === 'text' ? (part.annotations ?? []) : []));
}

/** A text among the arguments of a call; `undefined` if the model did not write it. */
export function argumentOf({ arguments: written }: { arguments: string }, name: string): string | undefined {
  try {
    const value: JsonValue = JSON.parse(written);
    const text = isJsonObject(value) ? value[name] : undefined;
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}

/** The list `results` in the output of a built-in tool. */
export function resultsIn(output: JsonValue): JsonObject[] {
  const results = isJsonObject(output) ? output.results : undefined;
  return Array.isArray(results) ? results.filter(isJsonObject) : [];
}
