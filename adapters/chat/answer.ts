import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { TurnDelta } from '../../protocol/turn.ts';
import { type AccumulatedCall, CallAccumulator, type CallFragment } from '../turn/accumulate-calls.ts';
import { arrayOf, integerIn, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { ContentChunks } from './content-chunks.ts';
import type { ChatDialect } from './dialect.ts';
import { detailText, newSuffix, ReasoningDetails } from './reasoning-details.ts';

/**
 * The members of a message that hold reasoning outside of its content. Providers repeat the same text in
 * several.
 */
const REASONING_MEMBERS = ['reasoning_content', 'reasoning', 'reasoning_details'] as const;
type ReasoningMember = (typeof REASONING_MEMBERS)[number];

/**
 * Accumulates the message of one turn, from deltas or from a complete message.
 *
 * A1 A delta may contain reasoning, content and calls at once; each is read.
 * A2 Reasoning text is read from one member, the first that has text; the other members repeat it.
 * A3 The calls of a complete message are taken from its list as they are; those of deltas are assembled.
 * A4 A generated image arrives complete, outside of the content; a repeated URL is the same image.
 */
export class Answer {
  text = '';
  /** Reasoning outside of the content, and the member it was in. */
  reasoning = '';
  reasoningMember: ReasoningMember | undefined;
  refusal = '';
  /** The message's `extra_content`: Gemini's signature of a text, in the last delta. Others have none. */
  extra: JsonObject | undefined;
  readonly content = new ContentChunks();
  readonly details = new ReasoningDetails();
  readonly annotations: JsonValue[] = [];
  /** The URLs of generated images. */
  readonly images = new Set<string>();
  readonly #calls = new CallAccumulator();
  readonly #executed: JsonObject[] = [];
  readonly #executedAt = new Map<number, JsonObject>();
  readonly #dialect: ChatDialect;

  constructor(dialect: ChatDialect) {
    this.#dialect = dialect;
  }

  /** Adds a complete message. */
  readMessage(message: JsonObject): void {
    for (const detail of objectsOf(message.reasoning_details)) this.details.add(detail);
    this.#readText(message);
    for (const call of objectsOf(message.tool_calls)) this.#calls.add(this.#fragmentOf(call));
    if (isJsonObject(message.function_call)) this.#calls.add(legacyFragment(message.function_call));
    this.#readExecuted(message);
  }

  /** Adds a delta. Yields the deltas to show to a reader of the stream. */
  *readDelta(delta: JsonObject): Generator<TurnDelta, void> {
    for (const piece of objectsOf(delta.reasoning_details)) this.details.push(piece);
    yield* this.#readText(delta);
    for (const call of objectsOf(delta.tool_calls)) yield* this.#calls.push(this.#fragmentOf(call));
    if (isJsonObject(delta.function_call)) yield* this.#calls.push(legacyFragment(delta.function_call));
    this.#readExecuted(delta);
  }

  /** Returns the calls. */
  calls(): AccumulatedCall[] {
    return this.#calls.calls();
  }

  /** Returns the tools that the provider ran itself. */
  executed(): JsonObject[] {
    return this.#executed;
  }

  #readText(source: JsonObject): TurnDelta[] {
    const deltas: TurnDelta[] = [];
    const reasoning = this.#reasoningIn(source);
    if (reasoning !== '') {
      this.reasoning += reasoning;
      deltas.push({ type: 'reasoning', text: reasoning });
    }
    for (const chunk of chunksOf(source.content)) {
      const read = this.content.add(this.#withoutRepetition(chunk));
      if (read.text === '') continue;
      if (read.type === 'text') this.text += read.text;
      deltas.push(read);
    }
    this.refusal += textIn(source.refusal);
    this.extra = extraOf(source) ?? this.extra;
    this.annotations.push(...arrayOf(source.annotations));
    for (const image of objectsOf(source.images)) {
      const url = nonEmpty(objectOf(image.image_url).url);
      if (url !== undefined) this.images.add(url);
    }
    return deltas;
  }

  #reasoningIn(source: JsonObject): string {
    const candidates = this.reasoningMember === undefined ? REASONING_MEMBERS : [this.reasoningMember];
    for (const member of candidates) {
      const text = member === 'reasoning_details' ? textOfDetails(source) : textIn(source[member]);
      if (text === '') continue;
      this.reasoningMember = member;
      return this.#dialect.resendsText ? newSuffix(this.reasoning, text) : text;
    }
    return '';
  }

  #withoutRepetition(chunk: JsonObject): JsonObject {
    if (!this.#dialect.resendsText || chunk.type !== 'text') return chunk;
    return { ...chunk, text: newSuffix(this.text, textIn(chunk.text)) };
  }

  #fragmentOf(call: JsonObject): CallFragment {
    const called = objectOf(call.function);
    return {
      ...omitUndefined({
        id: nonEmpty(call.id),
        extra: extraOf(call),
      }),
      index: integerIn(call.index) ?? null,
      name: nonEmpty(called.name) ?? null,
      arguments: called.arguments ?? null,
    };
  }

  #readExecuted(source: JsonObject): void {
    for (const tool of objectsOf(source.executed_tools)) {
      const index = integerIn(tool.index) ?? this.#executed.length;
      const known = this.#executedAt.get(index);
      if (known) Object.assign(known, tool);
      else {
        const entry = { ...tool };
        this.#executed.push(entry);
        if (integerIn(tool.index) !== undefined) this.#executedAt.set(index, entry);
      }
    }
  }
}

function extraOf({ extra_content }: JsonObject): JsonObject | undefined {
  return isJsonObject(extra_content) ? { extra_content } : undefined;
}

/** The API's older form of a call: one `function_call` per message, without an id. */
function legacyFragment({ name, arguments: text }: JsonObject): CallFragment {
  return { index: -1, name: nonEmpty(name) ?? null, arguments: text ?? null };
}

function chunksOf(content: JsonValue | undefined): JsonObject[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  return arrayOf(content).filter(isJsonObject);
}

function textOfDetails(source: JsonObject): string {
  return objectsOf(source.reasoning_details).map(detailText).join('');
}
