import { itemsOf, messagesOf } from './read-messages.ts';
import type { AgUiEvent, InputMessage, Message, RunInput } from './wire.ts';

export type AssistantMessage = Extract<Message, { role: 'assistant' }>;
export type ToolMessage = Extract<Message, { role: 'tool' }>;
type ToolCall = NonNullable<AssistantMessage['toolCalls']>[number];

/**
 * The messages of a thread, as a client has them that applied all events, and which of them the client of a request has
 * of its own.
 *
 * M1 A message has the same id in every stream and every process, because the id is derived from the journal.
 * M2 The results of calls follow directly after the message that made the calls.
 */
export class Thread {
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
    const said = messagesOf(itemsOf(fresh.filter(({ role }) => role === 'user')));
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
