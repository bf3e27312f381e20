import { omitUndefined } from '../../protocol/json.ts';
import type { AgUiEvent, Message } from './events.ts';

type AssistantMessage = Extract<Message, { role: 'assistant' }>;

/**
 * The messages of a thread. A client that applied the same events has the same messages.
 *
 * M1 A message has the same id in every stream and every process, because the id is derived from the journal.
 * M2 The results of calls follow directly after the message that made the calls.
 */
export class ThreadMessages {
  #messages: Message[] = [];

  /** Returns a copy of the messages for a MESSAGES_SNAPSHOT. */
  get list(): Message[] {
    return structuredClone(this.#messages);
  }

  /** The ids of all messages. */
  get ids(): Set<string> {
    return new Set(this.#messages.map(({ id }) => id));
  }

  /** Adds a message unless it is known. */
  add(message: Message): void {
    if (!this.#messages.some(({ id }) => id === message.id)) this.#messages.push(message);
  }

  /** Removes the messages of an attempt whose text was discarded. */
  remove(ids: readonly string[]): void {
    this.#messages = this.#messages.filter(({ id }) => !ids.includes(id));
  }

  /** Replaces the text of a message. Returns whether the text changed. */
  setText(id: string, text: string): boolean {
    const message = this.#messages.find(other => other.id === id);
    if (message?.role !== 'assistant' || message.content === text) return false;
    message.content = text;
    return true;
  }

  /** Applies an event that creates or extends a message. Ignores other events. */
  apply(event: AgUiEvent): void {
    switch (event.type) {
      case 'TEXT_MESSAGE_START': {
        const { messageId: id, role = 'assistant', subagentRunId } = event;
        this.add({ id, role, content: '', ...omitUndefined({ subagentRunId }) });
        return;
      }
      case 'REASONING_MESSAGE_START': {
        const { messageId: id, subagentRunId } = event;
        this.add({ id, role: 'reasoning', content: '', ...omitUndefined({ subagentRunId }) });
        return;
      }
      case 'TEXT_MESSAGE_CONTENT':
      case 'REASONING_MESSAGE_CONTENT': {
        const message = this.#messages.find(({ id }) => id === event.messageId);
        if (message && message.role !== 'activity' && typeof (message.content ?? '') === 'string')
          message.content = `${message.content ?? ''}${event.delta}`;
        return;
      }
      case 'TOOL_CALL_START': {
        const { toolCallId: id, toolCallName: name, parentMessageId = '', subagentRunId } = event;
        if (this.#callOf(id)) return;
        const call = { id, type: 'function' as const, function: { name, arguments: '' } };
        const parent = this.#messages.find(message => message.id === parentMessageId);
        if (parent?.role === 'assistant') parent.toolCalls = [...(parent.toolCalls ?? []), call];
        else
          this.add({
            id: parentMessageId,
            role: 'assistant',
            toolCalls: [call],
            ...omitUndefined({ subagentRunId }),
          });
        return;
      }
      case 'TOOL_CALL_ARGS': {
        const call = this.#callOf(event.toolCallId);
        if (call) call.function.arguments += event.delta;
        return;
      }
      case 'TOOL_CALL_RESULT':
        this.#addResult(event);
        return;
    }
  }

  #addResult(event: Extract<AgUiEvent, { type: 'TOOL_CALL_RESULT' }>): void {
    const { messageId: id, toolCallId, content, metadata, subagentRunId } = event;
    const owner = this.#messages.findIndex(message => callsOf(message).some(call => call.id === toolCallId));
    let at = owner === -1 ? this.#messages.length : owner + 1;
    while (owner !== -1 && this.#messages[at]?.role === 'tool') at += 1;
    const given = omitUndefined({ metadata, subagentRunId });
    this.#messages.splice(at, 0, { id, role: 'tool', toolCallId, content, ...given });
  }

  #callOf(id: string) {
    return this.#messages.flatMap(callsOf).find(call => call.id === id);
  }
}

function callsOf(message: Message): NonNullable<AssistantMessage['toolCalls']> {
  return (message.role === 'assistant' && message.toolCalls) || [];
}
