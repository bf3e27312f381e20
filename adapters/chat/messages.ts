import type { Item, ToolResultItem } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { GrowingInput } from '../turn/growing-input.ts';
import { nonEmpty } from '../turn/json-access.ts';
import { type AssistantItem, assistantMessage } from './assistant-message.ts';
import type { ChatDialect } from './dialect.ts';
import { userContent } from './user-content.ts';
import { WireCallIds } from './wire-call-ids.ts';

/**
 * The transcript as messages. What an assistant said in a row is one message; the results of its calls
 * stand right behind it, in the transcript's order, each call having exactly one. Control items, what the
 * provider ran itself and other providers' opaque data are left out, and so are results without a call.
 */
export function messagesOf(transcript: readonly Item[], dialect: ChatDialect, model: string): JsonObject[] {
  const ids = new WireCallIds(transcript, dialect.callIds);
  const results = new Results(transcript);
  const messages: JsonObject[] = [];
  let said: AssistantItem[] = [];

  function endAssistant(): void {
    const message = assistantMessage(said, dialect, ids);
    const calls = said.flatMap(item => (item.type === 'tool_call' ? item.callId : []));
    if (message) messages.push(message, ...results.take(calls).map(result => resultInput(result, ids)));
    said = [];
  }

  for (const item of transcript) {
    if (item.type === 'reasoning' || item.type === 'tool_call') said.push(item);
    else if (item.type === 'tool_result') endAssistant();
    else if (item.type === 'message') {
      if (item.role === 'assistant') {
        said.push(item);
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

/** The same behind `head`, made anew only where the transcript has gone on. */
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

/** The role that instructions, and system and developer messages have at this provider. */
export function roleFor(role: 'system' | 'developer', { role: map }: ChatDialect, model: string): string {
  return map ? map(role, model) : 'system';
}

/** The results of a transcript, each given once. */
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

  /** One for each call: a call whose result is gone would be refused. */
  take(callIds: readonly string[]): ToolResultItem[] {
    return callIds
      .map(
        callId =>
          this.#byCallId.get(callId)?.shift() ?? { at: Number.POSITIVE_INFINITY, result: gone(callId) },
      )
      .sort((a, b) => (a.at === b.at ? 0 : a.at - b.at))
      .map(({ result }) => result);
  }
}

function gone(callId: string): ToolResultItem {
  return { type: 'tool_result', callId, output: 'The result of this call is not known.', isError: true };
}

function resultInput({ callId, output, isError, shown }: ToolResultItem, ids: WireCallIds): JsonObject {
  const said = shown ?? (typeof output === 'string' ? output : JSON.stringify(output));
  return { role: 'tool', tool_call_id: ids.of(callId), content: isError ? `Error: ${said}` : said };
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

/** A result may be followed by another and by the assistant alone. */
function needsBridge(last: JsonObject | undefined, next: JsonObject): boolean {
  return last?.role === 'tool' && next.role !== 'tool' && next.role !== 'assistant';
}
