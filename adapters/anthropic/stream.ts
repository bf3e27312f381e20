import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { TurnDelta } from '../../protocol/turn.ts';
import { errorFromBody, malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { isBlank, type SseEvent } from '../http/read-sse.ts';
import { jsonIn, nonEmpty, objectOf, objectsOf, shorten, textIn } from '../turn/json-access.ts';
import { callStarted } from '../turn/turn-deltas.ts';
import { extend, type StreamedBlock, StreamedBlocks } from './streamed-blocks.ts';
import type { ReadBlock } from './turn.ts';

/** The final message of a stream, with its content separate. */
type EndedMessage = { message: JsonObject; content: ReadBlock[] };

/**
 * Yields the deltas of a streamed message and returns the message as soon as it has ended. `outputTool` is
 * the name of the tool that takes the answer, if there is one. The text of such a turn is only known at its
 * end, so no text deltas are yielded. Throws a `ProviderError` for an error in the stream and for a truncated
 * stream.
 */
export async function* readMessageStream(
  events: AsyncIterable<SseEvent>,
  outputTool: string | undefined,
  context: ProviderContext,
): AsyncGenerator<TurnDelta, EndedMessage, undefined> {
  const stream = new MessageStream(outputTool, context);
  let count = 0;
  let last = 'none';
  for await (const { event: name, data } of events) {
    if (isBlank(data)) continue;
    const event = jsonIn(data);
    if (!isJsonObject(event)) throw malformedStream(`an event is not JSON: ${shorten(data, 80)}`, context);
    count += 1;
    last = nonEmpty(event.type) ?? name;
    if (last === 'message_stop') return stream.end();
    if (last === 'error' || (last === '' && event.error !== undefined)) throw errorFromBody(event, context);
    yield* stream.read(last, event);
  }
  throw malformedStream(
    `truncated stream: it ended after ${count} events (the last: ${last}) without message_stop or an error.`,
    context,
  );
}

/**
 * The state of one streamed message.
 *
 * S1 A repeated `message_start` with the same id changes nothing. With another id, two messages were spliced
 *    into one stream, which is an error.
 * S2 Later token counts replace earlier ones; `null` is ignored.
 */
class MessageStream {
  readonly #outputTool: string | undefined;
  readonly #context: ProviderContext;
  readonly #blocks = new StreamedBlocks();
  #message: JsonObject | undefined;
  #ending: JsonObject = {};
  #usage: JsonObject = {};
  #calls = 0;
  /** An entry for each block of reasoning without text. This API has no refusals in its content. */
  #sealed: 0[] = [];

  constructor(outputTool: string | undefined, context: ProviderContext) {
    this.#outputTool = outputTool;
    this.#context = context;
  }

  /** Reads one event and yields its deltas. */
  *read(type: string, event: JsonObject): Generator<TurnDelta, void> {
    switch (type) {
      case 'message_start':
        yield* this.#start(objectOf(event.message));
        return;
      case 'content_block_start':
        yield* this.#begin(event);
        return;
      case 'content_block_delta':
        yield* this.#extend(event);
        return;
      case 'content_block_stop':
        this.#end(event);
        return;
      case 'message_delta':
        setKnown(this.#ending, objectOf(event.delta));
        setKnown(this.#usage, objectOf(event.usage));
        return;
    }
  }

  /** Returns the complete message. */
  end(): EndedMessage {
    const message = { ...this.#message, ...this.#ending, usage: this.#usage };
    return { message, content: this.#blocks.content() };
  }

  /** Calls that a container made before the stream began are part of the initial message. */
  *#start(message: JsonObject): Generator<TurnDelta, void> {
    if (this.#message === undefined) {
      this.#message = message;
      setKnown(this.#usage, objectOf(message.usage));
      const initial = objectsOf(message.content);
      for (const [at, block] of initial.entries()) {
        const index = at - initial.length;
        yield* this.#begin({ index, content_block: block });
        this.#end({ index });
      }
    } else if (message.id !== this.#message.id) {
      throw malformedStream(
        `the message ${textIn(message.id)} starts before ${textIn(this.#message.id)} has ended.`,
        this.#context,
      );
    }
  }

  *#begin(event: JsonObject): Generator<TurnDelta, void> {
    const block = objectOf(event.content_block);
    const streamed = this.#blocks.begin(event, block);
    if (!streamed) return;
    if (block.type === 'text') yield* this.#show('text', textIn(block.text));
    else if (block.type === 'thinking') yield* this.#show('reasoning', textIn(block.thinking));
    else if (block.type === 'tool_use' && block.name !== this.#outputTool) {
      streamed.callIndex = this.#calls++;
      yield callStarted(streamed.callIndex, textIn(block.name), textIn(block.id));
    }
  }

  #end(event: JsonObject): void {
    const streamed = this.#blocks.at(event);
    if (streamed === undefined) return;
    const { type, thinking } = streamed.block;
    const isReasoning = type === 'thinking' || type === 'redacted_thinking';
    if (isReasoning && !streamed.ended && textIn(thinking) === '') this.#sealed = [...this.#sealed, 0];
    streamed.ended = true;
  }

  *#extend(event: JsonObject): Generator<TurnDelta, void> {
    const delta = objectOf(event.delta);
    const streamed = this.#blocks.at(event) ?? this.#unannounced(event, delta);
    if (!streamed) return;
    extend(streamed, delta);
    const { type } = streamed.block;
    if (type === 'text') yield* this.#show('text', textIn(delta.text));
    else if (type === 'thinking') yield* this.#show('reasoning', textIn(delta.thinking));
    else if (delta.type === 'input_json_delta' && streamed.callIndex !== undefined) {
      const text = textIn(delta.partial_json);
      if (text !== '') yield { type: 'call_arguments', index: streamed.callIndex, text };
    }
  }

  /**
   * Opens the block for a delta without a `content_block_start`. Impossible for a call, which has no name
   * then.
   */
  #unannounced(event: JsonObject, { type }: JsonObject): StreamedBlock | undefined {
    if (type === 'text_delta') return this.#blocks.begin(event, { type: 'text', text: '' });
    if (type !== 'thinking_delta') return undefined;
    return this.#blocks.begin(event, { type: 'thinking', thinking: '', signature: '' });
  }

  *#show(type: 'text' | 'reasoning', text: string): Generator<TurnDelta, void> {
    if (text === '' || (type === 'text' && this.#outputTool !== undefined)) return;
    yield { type, text, ...(this.#sealed.length > 0 && { sealed: this.#sealed }) };
  }
}

function setKnown(target: JsonObject, members: JsonObject): void {
  for (const [name, value] of Object.entries(members)) if (value !== null) target[name] = value;
}
