import type { Item, MessageItem, ToolCallItem, ToolResultItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import { textOf } from '../../protocol/message.ts';
import { GrowingInput, type Input } from '../turn/growing-input.ts';
import { jsonIn, nonEmpty, objectOf, textIn } from '../turn/json-access.ts';
import { resultsByCall } from '../turn/results-by-call.ts';
import { userContent } from './user-content.ts';
import { keptBlock, legalCallId, legalName } from './wire-block.ts';

type ConversationOptions = {
  /** `false` leaves out the model's own thinking, which another model or another transcript may refuse. */
  withThinking: boolean;
  /** Other messages stand before these. Default false. */
  begun?: boolean;
};

/** The transcript as messages; what the system says before all of them is the `opening`. */
export function conversationOf(transcript: readonly Item[], options: ConversationOptions): Input {
  const builder = new ConversationBuilder(transcript, options);
  for (const item of transcript) builder.add(item);
  return builder.end();
}

/** The same with thinking, made anew only where the transcript has gone on. */
export function growingConversation(): (transcript: readonly Item[]) => Input {
  const growing = new GrowingInput({
    make: (items, begun) => conversationOf(items, { withThinking: true, begun }),
    namesOf(item) {
      const block = 'opaque' in item ? keptBlock(item.opaque) : undefined;
      const ids = [block?.id, block?.tool_use_id, 'callId' in item ? item.callId : undefined];
      const names = ids.flatMap(id => nonEmpty(id) ?? []);
      return names.every(name => legalCallId(name) === name && !name.endsWith('_')) ? names : undefined;
    },
    joins: (last, next) => last.role === next.role,
  });
  return transcript => growing.of(transcript);
}

type Message = { role: 'user' | 'assistant'; content: JsonObject[] };

/**
 * Builds messages that the API takes, whatever the order of the transcript.
 *
 * M1 What the model said goes back as it came, block by block; turns that follow each other are one message.
 * M2 Every `tool_use` has one result in the message that follows, before anything else in it; a call
 *    without a result gets one that says so. A result without a call is left out.
 * M3 Signed thinking goes back only if it is the provider's own; it never ends a message.
 * M4 No text and no message is empty.
 */
class ConversationBuilder {
  readonly #system: string[] = [];
  readonly #messages: Message[] = [];
  readonly #results: ReadonlyMap<string, ToolResultItem[]>;
  readonly #ids = new Set<string>();
  readonly #options: ConversationOptions;
  #open: { callId: string; result: JsonObject }[] = [];

  constructor(transcript: readonly Item[], options: ConversationOptions) {
    this.#options = options;
    this.#results = resultsByCall(transcript);
  }

  add(item: Item): void {
    switch (item.type) {
      case 'message':
        if (item.role === 'assistant') this.#say(item);
        else this.#hear(item);
        return;
      case 'reasoning':
        this.#think(keptBlock(item.opaque));
        return;
      case 'tool_call':
        this.#call(item);
        return;
      case 'tool_result':
        if (this.#open.some(({ callId }) => callId === item.callId)) this.#answer();
        return;
      case 'provider_item':
        this.#repeat(keptBlock(item.opaque));
        return;
      case 'approval_request':
      case 'approval_response':
      case 'tool_list':
        return;
    }
  }

  end(): Input {
    this.#endTurn();
    return { opening: this.#system, input: this.#messages };
  }

  /** Instructions in the middle have no place of their own: they are marked as such among the user's texts. */
  #hear({ role, content }: MessageItem): void {
    if (role === 'user') {
      this.#pushUser(userContent(content));
      return;
    }
    const text = content.map(part => (part.type === 'text' ? part.text : '')).join('');
    if (text === '') return;
    if (this.#messages.length === 0 && !this.#options.begun) this.#system.push(text);
    else this.#pushUser([{ type: 'text', text: `<system>\n${text}\n</system>` }]);
  }

  /** A text that was edited since goes without what was kept of it. */
  #say(item: MessageItem): void {
    const block = keptBlock(item.opaque);
    const text = textOf(item);
    if (block?.type === 'text' && block.text === text) this.#push(text === '' ? undefined : block);
    else if (block?.type === 'tool_use' && JSON.stringify(block.input) === text) {
      this.#pushCall(block, 'The answer was received.');
    } else {
      for (const part of item.content) {
        if (part.type === 'text' && part.text !== '') this.#push({ type: 'text', text: part.text });
      }
    }
  }

  #think(block: JsonObject | undefined): void {
    const proof = block?.type === 'redacted_thinking' ? block.data : block?.signature;
    if (this.#options.withThinking && nonEmpty(proof)?.trim()) this.#push(block);
  }

  /** What the provider ran goes back; a result only with the call it belongs to. */
  #repeat(block: JsonObject | undefined): void {
    if (!block) return;
    if (block.type === 'tool_use') {
      this.#pushCall(block, 'Not used: other tools were called with it. Call it again when they are done.');
      return;
    }
    const use = nonEmpty(block.tool_use_id);
    if (use === undefined || this.#ids.has(use)) this.#push(block);
  }

  #call(item: ToolCallItem): void {
    const found = this.#results.get(item.callId)?.shift();
    const block = this.#uniqueCall({
      ...keptBlock(item.opaque),
      type: 'tool_use',
      id: legalCallId(item.callId),
      name: legalName(item.name),
      input: inputOf(item),
    });
    const result = found
      ? resultBlock(textIn(block.id), found)
      : failure(textIn(block.id), 'There is no result for this call.');
    this.#push(block);
    this.#open.push({ callId: item.callId, result });
  }

  /** A call that is not for the engine, and what it is answered with. */
  #pushCall(kept: JsonObject, answer: string): void {
    const block = this.#uniqueCall({ ...kept, input: objectOf(kept.input) });
    const id = textIn(block.id);
    this.#push(block);
    this.#open.push({ callId: id, result: { type: 'tool_result', tool_use_id: id, content: answer } });
  }

  #uniqueCall(block: JsonObject): JsonObject {
    let id = legalCallId(textIn(block.id));
    while (this.#ids.has(id)) id = `${id}_`;
    return id === block.id ? block : { ...block, id };
  }

  #push(block: JsonObject | undefined): void {
    if (!block) return;
    const id = nonEmpty(block.id);
    if (id !== undefined) this.#ids.add(id);
    const last = this.#messages.at(-1);
    if (last?.role === 'assistant') last.content.push(block);
    else this.#messages.push({ role: 'assistant', content: [block] });
  }

  #pushUser(blocks: readonly JsonObject[]): void {
    if (blocks.length === 0) return;
    this.#endTurn();
    const last = this.#messages.at(-1);
    if (last?.role === 'user') last.content.push(...blocks);
    else this.#messages.push({ role: 'user', content: [...blocks] });
  }

  #endTurn(): void {
    this.#answer();
    this.#dropLastThinking();
  }

  #answer(): void {
    if (this.#open.length === 0) return;
    this.#messages.push({ role: 'user', content: this.#open.map(({ result }) => result) });
    this.#open = [];
  }

  #dropLastThinking(): void {
    const last = this.#messages.at(-1);
    if (last?.role !== 'assistant') return;
    while (/thinking$/.test(textIn(last.content.at(-1)?.type))) last.content.pop();
    if (last.content.length === 0) this.#messages.pop();
  }
}

/** Arguments that are no object cannot go back; the result of such a call quotes them. */
function inputOf({ arguments: text }: ToolCallItem): JsonObject {
  const input = jsonIn(text);
  return isJsonObject(input) ? input : {};
}

function resultBlock(id: string, { output, shown, isError }: ToolResultItem): JsonObject {
  const said = shown ?? (typeof output === 'string' ? output : JSON.stringify(output));
  return isError ? failure(id, said) : { type: 'tool_result', tool_use_id: id, content: said };
}

/** An error without a text is refused. */
function failure(id: string, said: string): JsonObject {
  return { type: 'tool_result', tool_use_id: id, content: said || 'The tool failed.', is_error: true };
}
