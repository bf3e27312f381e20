import type { Item, Part } from '../../protocol/item.ts';
import { isJsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import { isOutcome, textOf } from '../../protocol/message.ts';
import type { AgUiEvent, InputMessage, Message, RunInput } from './wire.ts';

export type AssistantMessage = Extract<Message, { role: 'assistant' }>;
export type ToolMessage = Extract<Message, { role: 'tool' }>;
type ToolCall = NonNullable<AssistantMessage['toolCalls']>[number];

/**
 * The messages of a thread as they are in a client that has applied all events, and which of them the client of a request
 * has itself.
 *
 * M1 A message has the same id in every stream and every process, because the id is derived from the journal.
 * M2 The results of calls follow directly after the message that made the calls.
 */
export class ShownThread {
  #messages: Message[] = [];
  #own = new Set<string>();

  constructor(earlier: readonly Message[] = []) {
    for (const message of earlier) this.add(message);
  }

  get snapshot(): Extract<AgUiEvent, { type: 'MESSAGES_SNAPSHOT' }> {
    return { type: 'MESSAGES_SNAPSHOT', messages: structuredClone(this.#messages) };
  }

  find(id: string): Message | undefined {
    return this.#messages.find(message => message.id === id);
  }

  isOwn(message: Message): boolean {
    return this.#own.has(keyOf(message));
  }

  add<Added extends Message>(message: Added): Added {
    if (this.find(message.id) === undefined) this.#messages.push(message);
    return message;
  }

  /** The message of the assistant with this id, which is added with `members` if it is new. */
  assistant(id: string, members: Omit<AssistantMessage, 'id' | 'role'>): AssistantMessage {
    const known = this.find(id);
    if (known?.role === 'assistant') return known;
    return this.add({ id, role: 'assistant', ...members });
  }

  addResult(message: ToolMessage): void {
    const owner = this.#messages.findIndex(one => callsOf(one).some(({ id }) => id === message.toolCallId));
    let at = owner === -1 ? this.#messages.length : owner + 1;
    while (owner !== -1 && this.#messages[at]?.role === 'tool') at += 1;
    this.#messages.splice(at, 0, message);
  }

  remove(ids: readonly string[]): void {
    this.#messages = this.#messages.filter(({ id }) => !ids.includes(id));
  }

  addCall(message: AssistantMessage, id: string, name: string): ToolCall {
    const known = this.#messages.flatMap(callsOf).find(call => call.id === id);
    const call: ToolCall = known ?? { id, type: 'function', function: { name, arguments: '' } };
    if (known === undefined) message.toolCalls = [...(message.toolCalls ?? []), call];
    return call;
  }

  /** Returns the snapshot that the client needs, if any. `fresh`: the messages that are new to the thread. */
  meet({ messages: theirs }: RunInput, fresh: readonly InputMessage[]): AgUiEvent[] {
    this.#own = new Set(theirs.map(keyOf));
    const had = theirs.filter(message => isSaid(message) && !fresh.includes(message));
    const known = new Set(had.map(describe));
    const ours = this.#messages.filter(isSaid);
    const isSame = ours.length === had.length && ours.every(message => known.has(describe(message)));
    if (isSame && this.#messages.every(one => one.role !== 'tool' || this.isOwn(one))) return [];
    const said = messagesOf(threadItemsOf(fresh.filter(({ role }) => role === 'user')));
    const messages = [...this.snapshot.messages, ...said.filter(({ id }) => this.find(id) === undefined)];
    this.#own = new Set(messages.map(keyOf));
    return [{ type: 'MESSAGES_SNAPSHOT', messages }];
  }
}

function callsOf(message: Message): ToolCall[] {
  return (message.role === 'assistant' && message.toolCalls) || [];
}

function isSaid({ role }: { role: string }): boolean {
  return role === 'user' || role === 'assistant';
}

/** Tells a client's messages apart. A result is known by its call: clients give it another id. */
function keyOf(message: Message | InputMessage): string {
  return message.role === 'tool' ? `result ${message.toolCallId}` : message.id;
}

function describe(message: Message | InputMessage): string {
  if (message.role !== 'assistant') return message.id;
  const { id, content = '', toolCalls = [] } = message;
  return JSON.stringify([id, content, toolCalls.map(call => call.id)]);
}

/** The id prefix of items that the front end adds and that are not messages of the thread. */
const CONTEXT_ID = 'agui-context-';

export function threadItemsOf(messages: readonly InputMessage[]): Item[] {
  return messages.flatMap((message): Item[] => {
    const { id } = message;
    switch (message.role) {
      case 'user':
      case 'system':
      case 'developer':
        return [{ type: 'message', id, role: message.role, content: partsOf(message.content) }];
      case 'assistant': {
        const calls = (message.toolCalls ?? []).map(
          (call): Item => ({
            type: 'tool_call',
            callId: call.id,
            name: call.function.name,
            arguments: call.function.arguments,
          }),
        );
        if (message.content === undefined || message.content === '') return calls;
        return [{ type: 'message', id, role: 'assistant', content: partsOf(message.content) }, ...calls];
      }
      case 'tool': {
        const isError = message.error !== undefined;
        return [
          { type: 'tool_result', id, callId: message.toolCallId, output: threadOutputOf(message), isError },
        ];
      }
      default:
        return [];
    }
  });
}

export function contextItems({ context, runId }: RunInput): Item[] {
  if (context.length === 0) return [];
  const text = context.map(({ description, value }) => `${description}: ${value}`).join('\n');
  const content = [{ type: 'text' as const, text: `Context of the application:\n${text}` }];
  return [{ type: 'message', id: `${CONTEXT_ID}${runId}`, role: 'developer', content }];
}

export function threadOutputOf({ content, error }: Extract<InputMessage, { role: 'tool' }>): JsonValue {
  if (error !== undefined) return error;
  if (typeof content !== 'string') return { type: 'content', parts: partsOf(content) };
  try {
    const value = JSON.parse(content) as JsonValue;
    return typeof value === 'object' && value !== null ? value : content;
  } catch {
    return content;
  }
}

export function messagesOf(items: readonly Item[]): Message[] {
  const messages: Message[] = [];
  for (const item of items) {
    if (isOutcome(item)) continue;
    const id = item.id ?? '';
    if (item.type === 'message' && !id.startsWith(CONTEXT_ID))
      messages.push(
        item.role === 'user'
          ? { id, role: 'user', content: contentOf(item.content) }
          : { id, role: item.role, content: textOf(item) },
      );
    if (item.type === 'tool_call') {
      const { callId, name, arguments: written } = item;
      const call = { id: callId, type: 'function' as const, function: { name, arguments: written } };
      const last = messages.at(-1);
      if (last?.role === 'assistant') last.toolCalls = [...(last.toolCalls ?? []), call];
      else messages.push({ id: `${callId}-message`, role: 'assistant', toolCalls: [call] });
    }
    if (item.type === 'tool_result')
      messages.push({ id, role: 'tool', toolCallId: item.callId, content: textOfOutput(item.output) });
  }
  return messages;
}

export function textOfOutput(output: JsonValue): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}

type Content = Extract<Message, { role: 'user' }>['content'];
type ContentPart = Exclude<Content, string>[number];

function contentOf(parts: readonly Part[]): Content {
  if (parts.every(part => part.type === 'text')) return parts.map(({ text }) => text).join('');
  return parts.map((part): ContentPart => {
    if (part.type === 'text') return { type: 'text', text: part.text };
    const mimeType = part.type === 'file' ? part.mediaType : undefined;
    const data = /^data:([^;,]+);base64,(.*)$/s.exec(part.url);
    const source = data
      ? { type: 'data' as const, mimeType: data[1] ?? '', value: data[2] ?? '' }
      : { type: 'url' as const, value: part.url, ...omitUndefined({ mimeType }) };
    return { type: part.type === 'image' ? 'image' : 'document', source };
  });
}

function partsOf(content: JsonValue): Part[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return (Array.isArray(content) ? content : []).flatMap(part => (isJsonObject(part) ? partOf(part) : []));
}

function partOf({ type, text, source }: { [key: string]: JsonValue }): Part[] {
  if (type === 'text' && typeof text === 'string') return [{ type: 'text', text }];
  if (!isJsonObject(source ?? null)) return [];
  const { type: kind, value, mimeType } = source as { [key: string]: JsonValue };
  if (typeof value !== 'string' || (kind !== 'url' && kind !== 'data')) return [];
  const mediaType = typeof mimeType === 'string' ? mimeType : undefined;
  const url = kind === 'url' ? value : `data:${mediaType ?? 'application/octet-stream'};base64,${value}`;
  if (type === 'image') return [{ type: 'image', url }];
  return [{ type: 'file', url, ...omitUndefined({ mediaType }) }];
}
