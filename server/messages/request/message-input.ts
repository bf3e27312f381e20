/** Translation of Anthropic's messages into input items of the Responses API. */
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { shortenToolName } from '../../../tools/unique-tool-names.ts';
import type { AnsweredCalls } from '../../responses/continued-run.ts';
import { type ItemPlace, itemIdOf } from '../../responses/wire/wire-ids.ts';
import { readThinking } from '../thinking-proof.ts';
import { searchItemOf } from '../web-search.ts';
import { readContent, textIn, unsupported } from './content-parts.ts';
import { type Block, blocksOf, invalidAt, type Message, type PlacedBlock } from './message-body.ts';
import { assertPaired } from './pair-calls.ts';

/** The input items of one message. */
export type MessageInput = { role: Message['role']; items: JsonObject[] };

/** Reads the messages. Throws a `ResponsesError` with the path of an invalid block, such as `messages.3.content.0`. */
export function readMessages(messages: readonly Message[]): MessageInput[] {
  assertPaired(messages);
  return messages.map((message, at) => ({
    role: message.role,
    items: new MessageReader(message, `messages.${at}`).read({ isLast: at === messages.length - 1 }),
  }));
}

/** The calls that the request answers, if any, and the history before them. */
export function answeredCalls(messages: readonly MessageInput[]): AnsweredCalls {
  const end = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
  const at = messages.findLastIndex(({ role }, place) => place < end && role !== 'assistant') + 1;
  const asked = messages.slice(at, end).flatMap(({ items }) => items);
  const itemsOf = (some: readonly MessageInput[]) => some.flatMap(({ items }) => items);
  return {
    input: itemsOf(messages),
    history: itemsOf(messages.slice(0, at)),
    text: asked.map(textOf).join(''),
    calls: asked.flatMap(({ type, call_id, name, arguments: written }) =>
      type === 'function_call'
        ? [{ id: String(call_id), type: 'function' as const, name: String(name), written: String(written) }]
        : [],
    ),
    answers: itemsOf(messages.slice(end)),
  };
}

/** The text of a message of the model, as `readText` writes it. */
function textOf({ type, content }: JsonObject): string {
  const [part] = type === 'message' && Array.isArray(content) ? content : [];
  return isJsonObject(part) ? String(part.text) : '';
}

class MessageReader {
  readonly #message: Message;
  readonly #place: string;
  /** The turn whose thinking came last, and the number of its texts so far. */
  #turn: { place: ItemPlace; texts: number } | undefined;

  constructor(message: Message, place: string) {
    this.#message = message;
    this.#place = place;
  }

  read({ isLast }: { isLast: boolean }): JsonObject[] {
    const { role } = this.#message;
    const blocks = blocksOf(this.#message, this.#place);
    const items = role === 'assistant' ? this.#readAnswer(blocks) : this.#readInput(blocks, role);
    if (items.length > 0 || (role === 'assistant' && (isLast || blocks.length > 0))) return items;
    throw invalidAt(`${this.#place}.content`, 'a message must have content that is not empty');
  }

  /** Results come first, because providers expect them directly after the calls. */
  #readInput(blocks: readonly PlacedBlock[], role: string): JsonObject[] {
    const results: JsonObject[] = [];
    const parts: JsonObject[] = [];
    for (const { block, path } of blocks) {
      if (block.type === 'tool_result' && role === 'user') results.push(readResult(block, path));
      else parts.push(...readContent(block, path));
    }
    return parts.length === 0 ? results : [...results, { type: 'message', role, content: parts }];
  }

  #readAnswer(blocks: readonly PlacedBlock[]): JsonObject[] {
    const items: JsonObject[] = [];
    for (const { block, path } of blocks) {
      const read = this.#readOutput(block, path);
      // In a stream, thinking without text is known only after the text that follows it.
      const isLate = block.type === 'redacted_thinking';
      const at = isLate ? items.findLastIndex(({ type }) => type !== 'message') + 1 : items.length;
      items.splice(at, 0, ...read);
    }
    return items;
  }

  #readOutput(block: Block, path: string): JsonObject[] {
    switch (block.type) {
      case 'text':
        return this.#readText(textIn(block, 'text', path));
      case 'thinking':
        textIn(block, 'thinking', path);
        textIn(block, 'signature', path);
        return this.#readThinking(block);
      case 'redacted_thinking':
        textIn(block, 'data', path);
        return this.#readThinking(block);
      case 'tool_use': {
        const { id = null, input } = block;
        const name = shortenToolName(textIn(block, 'name', path));
        const written = JSON.stringify(input ?? {});
        return [{ type: 'function_call', call_id: id, name, arguments: written }];
      }
      case 'server_tool_use':
        if (block.name !== 'web_search') throw unsupported(block, path);
        return [searchItemOf(block, this.#searchResult(block))];
      case 'web_search_tool_result':
        return [];
      default:
        throw unsupported(block, path);
    }
  }

  /** The content of the result that the message has for a search. */
  #searchResult({ id = null }: Block): JsonValue | undefined {
    return blocksOf(this.#message, this.#place)
      .map(({ block }) => block)
      .find(({ type, tool_use_id }) => type === 'web_search_tool_result' && tool_use_id === id)?.content;
  }

  #readText(text: string): JsonObject[] {
    if (text === '') return [];
    const turn = this.#turn;
    const id = turn && itemIdOf({ ...turn.place, kind: 'msg', place: turn.texts++ });
    const content = [{ type: 'output_text', text }];
    return [{ type: 'message', role: 'assistant', content, ...omitUndefined({ id }) }];
  }

  #readThinking(block: Block): JsonObject[] {
    const { item, place } = readThinking(block);
    const before = this.#turn?.place;
    const isSameTurn =
      before?.runId === place?.runId && before?.turn === place?.turn && before?.retry === place?.retry;
    if (place === undefined) this.#turn = undefined;
    else if (!isSameTurn) this.#turn = { place, texts: 0 };
    return item === undefined ? [] : [item];
  }
}

function readResult(block: Block, path: string): JsonObject {
  const { content = '', is_error: isError } = block;
  return {
    type: 'function_call_output',
    call_id: textIn(block, 'tool_use_id', path),
    output: outputOf(content, `${path}.content`),
    ...(isError === true ? { is_error: true } : {}),
  };
}

/** A text if all blocks are texts, otherwise the list of parts. */
function outputOf(content: JsonValue, path: string): JsonValue {
  if (content === null || typeof content === 'string') return content ?? '';
  if (!Array.isArray(content)) throw invalidAt(path, 'expected a string or a list of content blocks');
  const parts = content.flatMap((block, at) => readContent(block, `${path}.${at}`));
  const texts = parts.flatMap(({ text }) => (typeof text === 'string' ? [text] : []));
  return texts.length === parts.length ? texts.join('\n') : parts;
}
