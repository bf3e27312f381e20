/**
 * A loop of tool calls is one run, also in protocols without ids of responses, whose clients send the whole history with
 * each request. That history lacks what providers need back with a call, such as Gemini's thought signatures, and it
 * lacks the calls of hidden servers. The run that waits for the results has all of it.
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
import { ResponsesError } from './api-error.ts';

/** A call. `written` is the JSON text of the arguments, or the input of a custom tool. */
type AnsweredCall = { id: string; type: 'function' | 'custom'; name: string; written: string };

/** A request that may answer the calls of the model's last message. */
export type AnsweredCalls = {
  /** All input items. */
  input: JsonObject[];
  /** The input items before that message. */
  history: readonly JsonObject[];
  /** The text and the calls of that message, as the client returned them. */
  text: string;
  calls: readonly AnsweredCall[];
  /** The input items after it. */
  answers: readonly JsonObject[];
};

/** Finds a stored response object by its id. Throws a `ResponsesError` if there is none. */
type FindResponse = (responseId: string) => Promise<JsonObject>;

/** The response whose calls a request answers, and the input that continues it. */
type Continuation = { responseId: string; input: JsonObject[] };

/**
 * Names the calls of the response to a request with this input. `place` counts the calls of the response from 0; the
 * `prefix` is that of the protocol, such as `call_`.
 */
export function callNamer(
  prefix: string,
  input: readonly JsonObject[],
): (responseId: string, place: number) => string {
  const history = digestOfHistory(input);
  return (responseId, place) => `${prefix}${responseId.replace(/^resp_/, '')}_${place}_${history}`;
}

function readCallId(id: string): { responseId: string; place: number; history: string } | undefined {
  const [, key, place, history = ''] =
    /^[a-z]+_([A-Za-z0-9]+(?:_\d+)?)_(\d{1,4})_([0-9a-f]{12})$/.exec(id) ?? [];
  return key === undefined ? undefined : { responseId: `resp_${key}`, place: Number(place), history };
}

function digestOfHistory(input: readonly JsonObject[]): string {
  return digestOf(toJson(input)).slice(0, 12);
}

/**
 * Continues the run whose calls the request answers, or else starts a run with the whole input. Both are done by `start`,
 * which throws a `ResponsesError` if the service refuses the request.
 */
export async function continueOrStart<Live>(
  asked: AnsweredCalls,
  find: FindResponse,
  start: (input: JsonObject[], previousResponseId: string | null) => Promise<Live>,
): Promise<Live> {
  const continued = await findContinuation(asked, find);
  if (continued !== undefined) {
    try {
      return await start(continued.input, continued.responseId);
    } catch (error) {
      // Refused before anything was done, for example because a person has answered the call.
      if (!(error instanceof ResponsesError)) throw error;
    }
  }
  return await start(asked.input, null);
}

/**
 * The continuation of the run whose calls the request answers; `undefined` if the history before the calls, or the calls
 * themselves, are not those of the run.
 */
async function findContinuation(
  { history, text, calls, answers }: AnsweredCalls,
  find: FindResponse,
): Promise<Continuation | undefined> {
  const named = readCallId(calls[0]?.id ?? '');
  if (named === undefined || named.history !== digestOfHistory(history)) return undefined;
  const response = await find(named.responseId).catch(ignoreMissing);
  if (response === undefined) return undefined;
  const output = Array.isArray(response.output) ? response.output.filter(isJsonObject) : [];
  // A streamed text begins with the texts of failed attempts, which are not stored.
  const said = withoutSpace(text);
  if (said !== '' && !said.endsWith(withoutSpace(textIn(output)))) return undefined;
  const made = output.flatMap(item => readCall(item) ?? []);
  const ids = new Map<JsonValue, JsonValue>();
  for (const call of calls) {
    const place = readCallId(call.id);
    const known = place?.responseId === named.responseId ? made[place.place] : undefined;
    if (known === undefined || !isSameCall(known, call)) return undefined;
    ids.set(call.id, known.id);
  }
  if (ids.size !== made.length) return undefined;
  const input = answers.map(item => ({
    ...item,
    ...omitUndefined({ call_id: ids.get(item.call_id ?? null) }),
  }));
  return { responseId: named.responseId, input };
}

function textIn(output: readonly JsonObject[]): string {
  return output
    .flatMap(({ type, content }) => (type === 'message' && Array.isArray(content) ? content : []))
    .map(part => (isJsonObject(part) && typeof part.text === 'string' ? part.text : ''))
    .join('');
}

/** Protocols join the texts of a response differently. */
function withoutSpace(text: string): string {
  return text.replaceAll(/\s/g, '');
}

/** The call of an output item; `undefined` for another item, and for a call that a failed attempt left incomplete. */
function readCall(item: JsonObject): AnsweredCall | undefined {
  if (item.status === 'incomplete') return undefined;
  const call = { id: String(item.call_id), name: String(item.name) };
  if (item.type === 'function_call') return { ...call, type: 'function', written: String(item.arguments) };
  if (item.type === 'custom_tool_call') return { ...call, type: 'custom', written: String(item.input) };
  return undefined;
}

function isSameCall(one: AnsweredCall, other: AnsweredCall): boolean {
  if (one.type !== other.type || one.name !== other.name) return false;
  if (one.type === 'custom') return one.written === other.written;
  return agree(parsed(one.written), parsed(other.written));
}

/** The arguments of a call. Invalid or too deeply nested JSON is compared as text. */
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
