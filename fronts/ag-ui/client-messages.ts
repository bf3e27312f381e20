import type { AgUiEvent, Message } from './events.ts';
import { itemsOf, messagesOf } from './read-messages.ts';
import type { InputMessage, RunInput } from './run-input.ts';

/** The messages that the client already has. They decide which events it still needs. */
export class ClientMessages {
  readonly #given: readonly InputMessage[];
  readonly #fresh: readonly InputMessage[];
  /** The ids of messages that the client wrote itself. */
  readonly #own: Set<string>;
  /** The ids of calls whose results the client already has. */
  #answered: Set<string>;

  /** `fresh`: the messages of the request that are new to the thread. */
  constructor({ messages }: RunInput, fresh: readonly InputMessage[]) {
    this.#given = messages;
    this.#fresh = fresh;
    this.#own = new Set(messages.flatMap(({ id, role }) => (isWrittenByClients(role) ? id : [])));
    this.#answered = new Set(messages.flatMap(one => (one.role === 'tool' ? one.toolCallId : [])));
  }

  /** Whether the client lacks a message of the thread, or has a message that the thread lacks. */
  differsFrom(thread: readonly Message[]): boolean {
    const said = ({ role }: { role: string }) => role === 'user' || role === 'assistant';
    const theirs = this.#given.filter(message => said(message) && !this.#fresh.includes(message));
    const ours = thread.filter(said);
    const had = new Set(theirs.map(describe));
    const isSame = ours.length === theirs.length && ours.every(message => had.has(describe(message)));
    const isAnswered = thread.every(one => one.role !== 'tool' || this.#answered.has(one.toolCallId));
    return !isSame || !isAnswered;
  }

  /** The MESSAGES_SNAPSHOT with the thread's messages, followed by the user's new messages. */
  replaceBy(thread: readonly Message[]): AgUiEvent {
    const said = messagesOf(itemsOf(this.#fresh.filter(({ role }) => role === 'user')));
    const known = new Set(thread.map(({ id }) => id));
    const messages = [...thread, ...said.filter(({ id }) => !known.has(id))];
    for (const { id, role } of messages) if (isWrittenByClients(role)) this.#own.add(id);
    this.#answered = new Set(messages.flatMap(one => (one.role === 'tool' ? one.toolCallId : [])));
    return { type: 'MESSAGES_SNAPSHOT', messages };
  }

  /** Whether the event would repeat a message that the client wrote itself. */
  has(event: AgUiEvent): boolean {
    switch (event.type) {
      case 'TEXT_MESSAGE_START':
      case 'TEXT_MESSAGE_CONTENT':
      case 'TEXT_MESSAGE_END':
        return this.#own.has(event.messageId);
      case 'TOOL_CALL_RESULT':
        return this.#answered.has(event.toolCallId);
      default:
        return false;
    }
  }
}

function isWrittenByClients(role: string): boolean {
  return role === 'user' || role === 'system' || role === 'developer';
}

function describe(message: Message | InputMessage): string {
  if (message.role !== 'assistant') return message.id;
  const { id, content = '', toolCalls = [] } = message;
  return JSON.stringify([id, content, toolCalls.map(call => call.id)]);
}
