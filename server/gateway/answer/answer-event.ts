import { jsonIn, objectOf, objectsOf } from '../../../adapters/turn/json-access.ts';
import type { ControlItem, Item } from '../../../protocol/item.ts';
import { isJsonObject, isTooDeep, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { refusalOf } from '../../../protocol/message.ts';
import type { Usage } from '../../../protocol/turn.ts';
import type { BuiltinKind } from '../../builtins/builtin-schemas.ts';
import type { ExposedTool, ServerTool } from '../runs/response-spec.ts';

export type PlacedCall = {
  runId: string;
  turn: number;
  place: number;
  callId: string;
  name: string;
  arguments: string;
  gate: boolean;
  /** Further members of the call in OpenAI's API: the program that made it, its namespace, and `async`. */
  more?: JsonObject;
};

/** Whether the client does the work of the call while the model continues. */
export function isAsyncCall({ more }: Pick<PlacedCall, 'more'>): boolean {
  return more?.async === true;
}

export type CallEnd = { output: JsonValue } | { error: string };

type ToolListItem = Extract<ControlItem, { type: 'tool_list' }>;

export type AnswerEnd = {
  status: 'completed' | 'incomplete' | 'failed' | 'cancelled';
  incompleteReason?: string;
  error?: { code: string; message: string };
};

/** The `incompleteReason` of an answer that people have not approved. */
export const UNDER_REVIEW = 'answer_under_review';
/** The `incompleteReason` of an answer for which a tool asks people something. */
export const AWAITS_ANSWERS = 'tool_awaits_answers';

/** Whether people have to do something before there is an answer. */
export function waitsForPeople({ incompleteReason }: Pick<AnswerEnd, 'incompleteReason'>): boolean {
  return incompleteReason === UNDER_REVIEW || incompleteReason === AWAITS_ANSWERS;
}

type Named = { kind: 'message' | 'reasoning'; id: string };

/** The part of a run's story that the client of one request may see. `id`: of an output item of the Responses API. */
export type AnswerEvent =
  | { type: 'begun' }
  | { type: 'list'; id: string; list: ToolListItem }
  | ({ type: 'opened' } & Named)
  | ({ type: 'text'; text: string } & Named)
  /**
   * `items`: what `text` is made of; empty after a failed attempt, or while the provider may still seal the reasoning.
   * `seal`: the reasoning with what its provider needs, for clients that keep it.
   */
  | ({
      type: 'closed';
      text: string;
      items: readonly Item[];
      status: 'completed' | 'incomplete';
      seal?: string;
    } & Named)
  /** `item`: of the provider's API, if the provider made it. */
  | { type: 'compaction'; id: string; content: JsonValue; item?: JsonObject }
  /** An item of OpenAI's API that the provider made, such as a call that it ran. `builtin`: of a built-in tool. */
  | { type: 'provided'; id: string; builtin?: BuiltinKind; item: JsonObject }
  /** A call that the gateway runs; `end` is what became of it. */
  | { type: 'call.started'; id: string; call: PlacedCall; tool: ExposedTool }
  | { type: 'call.ended'; id: string; call: PlacedCall; tool: ExposedTool; end: CallEnd }
  | { type: 'call.asked'; id: string; call: PlacedCall; tool: ServerTool }
  /** A call for the client, which knows the tool as `call.name`. `as`: the type of its item in OpenAI's API. */
  | { type: 'call.given'; id: string; call: PlacedCall; as: string }
  | { type: 'usage'; usage: Usage }
  /** What was cleared from the request of a turn: Anthropic's `applied_edits`. */
  | { type: 'edited'; edits: readonly JsonObject[] }
  /** `at` in ms since the epoch. `retryAfter`: when the client may send a failed request again, in s; `null` if never. */
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

export type CompleteEvent = Extract<AnswerEvent, { type: (typeof COMPLETE)[number] }>;

export function isComplete(event: AnswerEvent): event is CompleteEvent {
  return COMPLETE.some(type => type === event.type);
}

export interface AnswerWriter<Whole> {
  take(event: AnswerEvent): void;
  readonly whole: Whole;
}

export const NO_USAGE: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cachedInputTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
};

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

/** The words of a refusal, if they are apart from the text of the message; otherwise empty. */
export function refusalIn(items: readonly Item[]): string {
  return items.map(refusalOf).join('');
}

export function annotationsOf(items: readonly Item[]): JsonValue[] {
  const parts = items.flatMap(item => (item.type === 'message' ? item.content : []));
  return parts.flatMap(part => (part.type === 'text' ? (part.annotations ?? []) : []));
}

/** The text itself if it is not JSON, or nested too deep: then no call runs. */
export function argumentsIn(written: string): JsonValue {
  return isTooDeep(written) ? written : (jsonIn(written || '{}') ?? written);
}

type WrittenCall = { name: string; arguments: string };

/** Apart from ids, and from arguments that only one has: clients send back what their schema made of arguments. */
export function isSameCall(one: WrittenCall, other: WrittenCall): boolean {
  return one.name === other.name && agree(argumentsIn(one.arguments), argumentsIn(other.arguments));
}

function agree(one: JsonValue, other: JsonValue): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((value, at) => agree(value, other[at] ?? null));
  if (!isJsonObject(one) || !isJsonObject(other)) return one === other;
  return Object.entries(one).every(([name, value]) => {
    const there = Object.hasOwn(other, name) ? other[name] : undefined;
    return there === undefined || agree(value, there);
  });
}

/** A text among the arguments of a call; `undefined` if the model did not write it. */
export function argumentOf({ arguments: written }: { arguments: string }, name: string): string | undefined {
  const text = objectOf(argumentsIn(written))[name];
  return typeof text === 'string' ? text : undefined;
}

export function resultsIn(output: JsonValue): JsonObject[] {
  return objectsOf(objectOf(output).results);
}
