import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import { invalid } from '../responses/api-error.ts';
import type { AnsweredCalls } from '../responses/continued-run.ts';
import type { ChatMessage, ChatToolCall } from './chat-body.ts';

type Of<Role extends ChatMessage['role']> = Extract<ChatMessage, { role: Role }>;
type UserPart = Of<'user'>['content'][number];

/** The input items of one message, and the message's place in the request. */
export type MessageInput = { at: number; items: JsonObject[] };

/**
 * Converts messages to input items of the Responses API. Throws a `ResponsesError` that names the message, unless every
 * call is directly followed by its result, as OpenAI requires.
 */
export function readMessages(messages: readonly ChatMessage[]): MessageInput[] {
  const calls = new OpenCalls();
  const input = messages.map((message, at) => ({ at, items: itemsOf(message, at, calls) }));
  calls.assertNone();
  return input;
}

/** The calls that the request answers, if any, and the history before them. */
export function answeredCalls(
  messages: readonly ChatMessage[],
  input: readonly MessageInput[],
): AnsweredCalls {
  const at = messages.findLastIndex(({ role }) => role === 'assistant');
  const asked = messages[at];
  const isAnswer = asked?.role === 'assistant';
  const itemsIn = (some: readonly MessageInput[]) => some.flatMap(({ items }) => items);
  return {
    input: itemsIn(input),
    history: itemsIn(input.slice(0, Math.max(0, at))),
    text: isAnswer ? textOf(asked) : '',
    calls: isAnswer ? (asked.tool_calls ?? []).map(readCall) : [],
    answers: itemsIn(input.slice(at + 1)),
  };
}

function readCall(call: ChatToolCall): AnsweredCalls['calls'][number] {
  const { id, type } = call;
  if (call.type === 'custom') return { id, type, name: call.custom.name, written: call.custom.input };
  return { id, type, name: call.function.name, written: call.function.arguments };
}

function itemsOf(message: ChatMessage, at: number, calls: OpenCalls): JsonObject[] {
  if (message.role === 'tool') {
    const output = message.content.map(({ text }) => text).join('');
    return [{ ...calls.close(message.tool_call_id, at), output }];
  }
  calls.assertNone();
  switch (message.role) {
    case 'system':
    case 'developer':
    case 'user':
      return [{ type: 'message', role: message.role, content: message.content.map(inputPart) }];
    case 'assistant':
      return assistantItems(message, at, calls);
  }
}

function assistantItems(message: Of<'assistant'>, at: number, calls: OpenCalls): JsonObject[] {
  const made = message.tool_calls ?? [];
  const said = textOf(message);
  if (message.content == null && message.refusal == null && made.length === 0) {
    const param = `messages[${at}].content`;
    throw invalid(param, 'missing_required_parameter', `Missing required parameter: '${param}'.`);
  }
  const content = [{ type: 'output_text', text: said }];
  return [
    ...(said === '' ? [] : [{ type: 'message', role: 'assistant', content }]),
    ...made.map(call => calls.open(call, at)),
  ];
}

/** The text of an assistant message, with its refusal. */
function textOf({ content, refusal }: Of<'assistant'>): string {
  const texts = (content ?? []).map(part => (part.type === 'text' ? part.text : part.refusal));
  return [...texts, refusal ?? ''].join('');
}

function inputPart(part: UserPart): JsonObject {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'image_url': {
      const { url, detail } = part.image_url;
      return { type: 'input_image', image_url: url, ...omitUndefined({ detail: detail ?? undefined }) };
    }
    case 'file': {
      const { file_data, filename } = part.file;
      return { type: 'input_file', file_data, ...omitUndefined({ filename: filename ?? undefined }) };
    }
  }
}

/**
 * The calls that still need a result. Clients may use an id again in a later message; the Responses API needs ids that
 * are unique, so repeated ones get a suffix.
 */
class OpenCalls {
  readonly #taken = new Set<string>();
  /** The beginning of the result's item, by the client's id of the call. */
  readonly #open = new Map<string, JsonObject>();
  #at = 0;

  /** The item of a call in message `at`. */
  open(call: ChatToolCall, at: number): JsonObject {
    const { id, type } = call;
    this.#at = at;
    if (this.#open.has(id))
      throw invalid(`messages[${at}].tool_calls`, 'invalid_value', `Two calls have the id ${id}.`);
    let unique = id;
    for (let again = 2; this.#taken.has(unique); again += 1) unique = `${id}_${again}`;
    this.#taken.add(unique);
    const itemType = type === 'custom' ? 'custom_tool_call' : 'function_call';
    this.#open.set(id, { type: `${itemType}_output`, call_id: unique });
    return { type: itemType, call_id: unique, ...(type === 'custom' ? call.custom : call.function) };
  }

  /** The beginning of the item of the result that message `at` has. */
  close(id: string, at: number): JsonObject {
    const result = this.#open.get(id);
    this.#open.delete(id);
    if (result !== undefined) return result;
    throw invalid(
      `messages[${at}].tool_call_id`,
      'tool_call_not_found',
      `'messages[${at}]' must answer a call of the assistant message before it: no call has the id ${id}.`,
    );
  }

  /** Throws unless every call has a result. */
  assertNone(): void {
    if (this.#open.size === 0) return;
    const param = `messages[${this.#at}].tool_calls`;
    const ids = [...this.#open.keys()].join(', ');
    throw invalid(
      param,
      'tool_output_missing',
      `'${param}' must be followed by a tool message for each call. There is none for: ${ids}.`,
    );
  }
}
