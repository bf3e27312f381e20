/**
 * A loop of tool calls is one run. Chat Completions has no ids of responses: clients send the whole history with each
 * request. That history lacks what providers need back with a call, such as Gemini's thought signatures and Anthropic's
 * signed thinking, and it lacks the calls of hidden servers. The run that waits for the results has all of it.
 *
 * So the id of a call names its response and the history before it, and a request that answers the calls with the same
 * history continues the run. With any other history, and for other ids, a new run starts from the messages.
 */
import { digestOf } from '../../engine/journal/digest.ts';
import {
  isJsonObject,
  isTooDeep,
  type JsonObject,
  type JsonValue,
  omitUndefined,
  toJson,
} from '../../protocol/json.ts';
import { ResponsesError } from '../responses/api-error.ts';
import type { ChatMessage, ChatToolCall } from './chat-body.ts';
import { type MessageInput, textOf } from './chat-input.ts';
import { type ClientCall, callsIn, textIn } from './response-output.ts';

/** Finds a stored response by its id. Throws a `ResponsesError` if there is none. */
type FindResponse = (responseId: string) => Promise<JsonObject>;

/** The response whose calls a request answers, and the input that continues it. */
type Continuation = { responseId: string; input: JsonObject[] };

/** Names the calls of the response to a request. `place` counts the calls of the response from 0. */
export function callNamer(input: readonly MessageInput[]): (responseId: string, place: number) => string {
  const history = digestOfHistory(input);
  return (responseId, place) => `call_${responseId.replace(/^resp_/, '')}_${place}_${history}`;
}

function readCallId(id: string): { responseId: string; place: number; history: string } | undefined {
  const [, key, place, history = ''] =
    /^call_([A-Za-z0-9]+(?:_\d+)?)_(\d{1,4})_([0-9a-f]{12})$/.exec(id) ?? [];
  return key === undefined ? undefined : { responseId: `resp_${key}`, place: Number(place), history };
}

function digestOfHistory(input: readonly MessageInput[]): string {
  return digestOf(toJson(input.map(({ items }) => items))).slice(0, 12);
}

/**
 * The continuation of the run whose calls the messages answer; `undefined` if they answer none, or if the history before
 * the calls, or the calls themselves, are not those of the run.
 */
export async function findContinuation(
  messages: readonly ChatMessage[],
  input: readonly MessageInput[],
  find: FindResponse,
): Promise<Continuation | undefined> {
  const at = messages.findLastIndex(({ role }) => role === 'assistant');
  const asked = messages[at];
  if (asked?.role !== 'assistant') return undefined;
  const calls = (asked.tool_calls ?? []).map(call => ({ ...call, named: readCallId(call.id) }));
  const named = calls[0]?.named;
  if (named === undefined || named.history !== digestOfHistory(input.slice(0, at))) return undefined;
  const response = await find(named.responseId).catch(ignoreMissing);
  if (response === undefined) return undefined;
  // A streamed text begins with the texts of failed attempts, which are not stored.
  const said = textOf(asked).trim();
  if (said !== '' && !said.endsWith(textIn(response, 'message').trim())) return undefined;
  const made = callsIn(response);
  const ids = new Map<JsonValue, string>();
  for (const { named: place, ...sent } of calls) {
    const call = place?.responseId === named.responseId ? made[place.place] : undefined;
    if (call === undefined || !isSameCall(call, sent)) return undefined;
    ids.set(sent.id, call.callId);
  }
  if (ids.size !== made.length) return undefined;
  const answers = input.slice(at + 1).flatMap(({ items }) => items);
  return {
    responseId: named.responseId,
    input: answers.map(item => ({ ...item, ...omitUndefined({ call_id: ids.get(item.call_id ?? null) }) })),
  };
}

function isSameCall({ type, name, written }: ClientCall, sent: ChatToolCall): boolean {
  if (sent.type === 'custom')
    return type === 'custom' && sent.custom.name === name && sent.custom.input === written;
  if (type !== 'function' || sent.function.name !== name) return false;
  return agree(parsed(written), parsed(sent.function.arguments));
}

/** The arguments of a call. What is no JSON, or nested too deep, is compared as text. */
function parsed(written: string): JsonValue {
  if (isTooDeep(written)) return written;
  try {
    return JSON.parse(written || '{}');
  } catch {
    return written;
  }
}

/**
 * Whether arguments are the same, apart from members that only one of them has: clients that validate arguments send back
 * what their schema made of them, without unknown members and with defaults.
 */
function agree(one: JsonValue, other: JsonValue): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((value, at) => agree(value, other[at] ?? null));
  if (!isJsonObject(one) || !isJsonObject(other)) return one === other;
  return Object.entries(one).every(([name, value]) => {
    const there = Object.hasOwn(other, name) ? other[name] : undefined;
    return there === undefined || agree(value, there);
  });
}

function ignoreMissing(error: unknown): undefined {
  if (error instanceof ResponsesError) return undefined;
  throw error;
}
