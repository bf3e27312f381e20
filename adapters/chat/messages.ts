import type { Item, ToolResultItem } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { GrowingInput } from '../turn/growing-input.ts';
import { nonEmpty } from '../turn/json-access.ts';
import { textOfResult } from '../turn/result-content.ts';
import { type AssistantItem, assistantMessage } from './assistant-message.ts';
import type { ChatDialect } from './dialect.ts';
import { userContent } from './user-content.ts';
import { WireCallIds } from './wire-call-ids.ts';

/**
 * Converts a transcript to messages. Consecutive assistant items become one message, directly followed by
 * exactly one result for each of its calls, in the transcript's order. Control items, calls that the provider
 * ran itself, other providers' opaque data, and results without a call are omitted.
 */
function messagesOf(transcript: readonly Item[], dialect: ChatDialect, model: string): JsonObject[] {
  const ids = new WireCallIds(transcript, dialect.callIds);
  const results = new Results(transcript);
  const messages: JsonObject[] = [];
  let turn: AssistantItem[] = [];

  function endAssistant(): void {
    const message = assistantMessage(turn, dialect, ids);
    const calls = turn.flatMap(item => (item.type === 'tool_call' ? item.callId : []));
    if (message) messages.push(message, ...results.take(calls).map(result => resultInput(result, ids)));
    turn = [];
  }

  for (const item of transcript) {
    if (item.type === 'reasoning' || item.type === 'tool_call') turn.push(item);
    else if (item.type === 'tool_result') endAssistant();
    else if (item.type === 'message') {
      if (item.role === 'assistant') {
        turn.push(item);
        continue;
      }
      endAssistant();
      const role = item.role === 'user' ? 'user' : roleFor(item.role, dialect, model);
      const content = item.role === 'user' ? userContent(item.content, dialect) : nonEmpty(textOf(item));
      if (content !== undefined) messages.push({ role, content });
    }
  }
  endAssistant();
  return dialect.strictOrder ? inStrictOrder(messages) : messages;
}

/**
 * Returns a function like `messagesOf` that puts `head` before the messages and converts only what the
 * transcript gained.
 */
export function growingMessages(
  dialect: ChatDialect,
  model: string,
): (transcript: readonly Item[], head: readonly JsonObject[]) => JsonObject[] {
  const { fits = () => true } = dialect.callIds ?? {};
  const growing = new GrowingInput({
    make: items => ({ opening: [], input: messagesOf(items, dialect, model) }),
    namesOf(item) {
      if (item.type !== 'tool_call' && item.type !== 'tool_result') return [];
      return fits(item.callId) ? [item.callId] : undefined;
    },
    joins: (last, next) =>
      dialect.strictOrder === true && (last.role === 'assistant' || needsBridge(last, next)),
  });
  return (transcript, head) => growing.of(transcript, head).input;
}

/** Returns the provider's role for instructions and for system and developer messages. */
export function roleFor(role: 'system' | 'developer', { role: map }: ChatDialect, model: string): string {
  return map ? map(role, model) : 'system';
}

/** The results of a transcript, each used once. */
class Results {
  readonly #byCallId = new Map<string, { at: number; result: ToolResultItem }[]>();

  constructor(transcript: readonly Item[]) {
    for (const [at, item] of transcript.entries()) {
      if (item.type !== 'tool_result') continue;
      const known = this.#byCallId.get(item.callId);
      if (known) known.push({ at, result: item });
      else this.#byCallId.set(item.callId, [{ at, result: item }]);
    }
  }

  /** Returns one result for each call: providers refuse a call without a result. */
  take(callIds: readonly string[]): ToolResultItem[] {
    return callIds
      .map(
        callId =>
          this.#byCallId.get(callId)?.shift() ?? {
            at: Number.POSITIVE_INFINITY,
            result: missingResult(callId),
          },
      )
      .sort((a, b) => (a.at === b.at ? 0 : a.at - b.at))
      .map(({ result }) => result);
  }
}

function missingResult(callId: string): ToolResultItem {
  return { type: 'tool_result', callId, output: 'The result of this call is not known.', isError: true };
}

function resultInput(result: ToolResultItem, ids: WireCallIds): JsonObject {
  return { role: 'tool', tool_call_id: ids.of(result.callId), content: textOfResult(result) };
}

function inStrictOrder(messages: readonly JsonObject[]): JsonObject[] {
  const ordered = messages.flatMap((message, at) => {
    return needsBridge(messages[at - 1], message)
      ? [{ role: 'assistant', content: 'OK' }, message]
      : [message];
  });
  const last = ordered.at(-1);
  if (last?.role !== 'assistant' || last.tool_calls !== undefined) return ordered;
  return [...ordered.slice(0, -1), { ...last, prefix: true }];
}

/** A result may only be followed by another result or by an assistant message. */
function needsBridge(last: JsonObject | undefined, next: JsonObject): boolean {
  return last?.role === 'tool' && next.role !== 'tool' && next.role !== 'assistant';
}
