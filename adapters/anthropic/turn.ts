import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, TurnDelta, Usage } from '../../protocol/turn.ts';
import { malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { failed } from '../streams.ts';
import {
  arrayOf,
  integerIn,
  jsonIn,
  nonEmpty,
  objectOf,
  objectsOf,
  pick,
  textIn,
} from '../turn/json-access.ts';
import type { AnswerReader } from '../turn/single-turn.ts';
import { toolCall } from '../turn/tool-calls.ts';
import { MOST_DROPPED, TurnBuilder } from '../turn/turn-builder.ts';
import { callStarted } from '../turn/turn-deltas.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { keepBlock, keptBlock, signatureIn } from './messages.ts';

/** A content block. `written` is its `input` as a stream sent it, empty if it sent none. */
type ReadBlock = { block: JsonObject; written?: string };

const CUT_OFF =
  'The turn was cut off by its length limit before the arguments of this call were complete. It was not run.';

function answerText({ input }: JsonObject, written: string | undefined): string {
  const parsed = written ? jsonIn(written) : input;
  return parsed === undefined ? (written ?? '') : JSON.stringify(parsed);
}

const TOO_LONG: ReadonlySet<JsonValue | undefined> = new Set(['max_tokens', 'model_context_window_exceeded']);

function isCutOff(message: JsonObject): boolean {
  return TOO_LONG.has(message.stop_reason);
}

/** A paused turn with calls continues when the calls have results. */
function finishReasonOf(message: JsonObject, { hasCalls }: { hasCalls: boolean }): FinishReason {
  if (isCutOff(message)) return 'length';
  if (message.stop_reason === 'refusal') return 'content_filter';
  if (hasCalls) return 'tool_calls';
  switch (message.stop_reason) {
    case 'end_turn':
    case 'stop_sequence':
    case 'tool_use':
      return 'stop';
    case 'pause_turn':
    case 'compaction':
      return 'pause';
    default:
      return 'unknown';
  }
}

/**
 * The API reports the input in three disjoint counts; a missing count is 0. The compactions of a call are reported
 * beside its own counts: https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand#understanding-usage
 */
function usageOf(usage: JsonObject): Usage | null {
  const compactions = objectsOf(usage.iterations).filter(({ type }) => type === 'compaction');
  const calls = [usage, ...compactions];
  const sumOf = (countOf: (call: JsonObject) => number) =>
    calls.reduce((sum, call) => sum + countOf(call), 0);
  const cached = sumOf(call => countIn(call.cache_read_input_tokens));
  const written = sumOf(cacheWriteIn);
  const isKnown = (name: string) => calls.some(call => typeof call[name] === 'number');
  return normalizeUsage({
    input: isKnown('input_tokens') ? sumOf(call => countIn(call.input_tokens)) + cached + written : undefined,
    output: isKnown('output_tokens') ? sumOf(call => countIn(call.output_tokens)) : undefined,
    cachedInput: cached,
    cacheWrite: written,
    reasoning: objectOf(usage.output_tokens_details).thinking_tokens,
  });
}

function editsOf({ context_management: done }: JsonObject): JsonObject[] | undefined {
  const edits = objectsOf(objectOf(done).applied_edits);
  return edits.length === 0 ? undefined : edits.slice(0, MOST_EDITS);
}

/** A request lists a few. */
const MOST_EDITS = 100;

/** The tokens written to caches: their sum, else the counts of the caches by their lifetime. */
function cacheWriteIn({ cache_creation_input_tokens: sum, cache_creation }: JsonObject): number {
  if (typeof sum === 'number') return countIn(sum);
  const { ephemeral_5m_input_tokens, ephemeral_1h_input_tokens } = objectOf(cache_creation);
  return countIn(ephemeral_5m_input_tokens) + countIn(ephemeral_1h_input_tokens);
}

function countIn(value: JsonValue | undefined): number {
  return typeof value === 'number' ? Math.max(0, value) : 0;
}

/**
 * Reads one message. `outputTool` is the name of the tool that takes the answer, if there is one: the text of such a
 * turn is only known at its end, so no text deltas are yielded.
 *
 * S1 A repeated `message_start` with the same id changes nothing. With another id, two messages were spliced
 *    into one stream, which is an error.
 * S2 Later token counts replace earlier ones; `null` is ignored.
 */
export class MessageReader implements AnswerReader {
  progress: 'open' | 'over' = 'open';
  readonly #request: ModelRequest;
  readonly #outputTool: string | undefined;
  readonly #context: ProviderContext;
  readonly #sentMessages: () => readonly JsonObject[];
  readonly #blocks = new StreamedBlocks();
  #message: JsonObject | undefined;
  #ending: JsonObject = {};
  #usage: JsonObject = {};
  #calls = 0;
  /** An entry for each block of reasoning without text. This API has no refusals in its content. */
  #sealed: 0[] = [];

  constructor(
    request: ModelRequest,
    context: ProviderContext,
    options: { outputTool: string | undefined; sentMessages(): readonly JsonObject[] },
  ) {
    this.#request = request;
    this.#context = context;
    this.#outputTool = options.outputTool;
    this.#sentMessages = options.sentMessages;
  }

  read(body: JsonObject): ModelTurn {
    if (!Array.isArray(body.content)) {
      throw malformedStream('the message has no content', this.#context, body);
    }
    const blocks = objectsOf(body.content).map(block => ({ block }));
    return this.#turn(body, blocks);
  }

  *push(event: JsonObject, type: string): Generator<TurnDelta, void> {
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
        yield* this.#end(event);
        return;
      case 'message_delta':
        setKnown(this.#ending, objectOf(event.delta));
        setKnown(this.#ending, pick(event, ['input_transformations', 'context_management']));
        setKnown(this.#usage, objectOf(event.usage));
        return;
      case 'message_stop':
        this.progress = 'over';
        return;
    }
  }

  end(): ModelTurn {
    return this.#turn({ ...this.#message, ...this.#ending, usage: this.#usage }, this.#blocks.content());
  }

  /** If only the output tool is called, its input is the answer; if others are, it is ignored. */
  #turn(message: JsonObject, all: readonly ReadBlock[]): ModelTurn {
    const outputTool = this.#outputTool;
    const turn = new TurnBuilder(this.#request);
    const content = withoutDeclined(all);
    const container = nonEmpty(objectOf(message.container).id);
    const calls = content.map(({ block }) => (block.type === 'tool_use' ? textIn(block.name) : undefined));
    const isReal = (name: string | undefined) => name !== undefined && name !== outputTool;
    const answer = outputTool === undefined || calls.some(isReal) ? -1 : calls.indexOf(outputTool);
    const cutOff = isCutOff(message) ? content.length - 1 : -1;
    for (const [at, { block, written }] of content.entries()) {
      const opaque = keepBlock(block, block.caller === undefined ? undefined : container);
      const text = textIn(block.text);
      if (block.type === 'text' && text === '') continue;
      // Text next to an answer that is a call is not part of the answer.
      if (block.type === 'text' && answer < 0) turn.addText(text, opaque, arrayOf(block.citations));
      else if (block.type === 'thinking' || block.type === 'redacted_thinking')
        turn.addReasoning(textIn(block.thinking), opaque);
      else if (block.type === 'tool_use' && at === answer) turn.addText(answerText(block, written), opaque);
      else if (block.type === 'tool_use' && block.name !== outputTool) {
        const callId = turn.nextCallId(nonEmpty(block.id));
        const call = toolCall(callId, textIn(block.name), written || JSON.stringify(block.input ?? {}));
        const hasNoInput = at === cutOff && written === '' && call.arguments === '{}';
        turn.addCall(hasNoInput ? failed(call, CUT_OFF) : call, opaque);
      } else turn.addProviderItem(nonEmpty(block.type) ?? 'unknown', opaque);
    }
    return turn.turn({
      finishReason: finishReasonOf(message, { hasCalls: turn.toolCalls.length > 0 }),
      usage: usageOf(objectOf(message.usage)),
      model: nonEmpty(message.model) ?? this.#context.model,
      ...omitUndefined({ dropped: this.#dropped(message), appliedEdits: editsOf(message) }),
    });
  }

  /** The thinking that the provider left out, which it names by its place in the request. */
  #dropped({ input_transformations: reported }: JsonObject): string[] | undefined {
    const removed = objectsOf(reported).filter(({ type }) => type === 'thinking_dropped');
    if (removed.length === 0) return undefined;
    const messages = this.#sentMessages();
    const proofs = new Set(
      removed.map(({ path }) => {
        const [, at = '', place = ''] = /^messages\.(\d+)\.content\.(\d+)$/.exec(textIn(path)) ?? [];
        return signatureIn(objectsOf(messages[Number(at)]?.content)[Number(place)]);
      }),
    );
    const ids = this.#request.transcript.flatMap(item => {
      const proof = item.type === 'reasoning' ? signatureIn(keptBlock(item.opaque)) : undefined;
      return proof !== undefined && item.id !== undefined && proofs.has(proof) ? [item.id] : [];
    });
    return ids.length === 0 ? undefined : ids.slice(0, MOST_DROPPED);
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
        yield* this.#end({ index });
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
    // The calls of the model that declined are not part of the turn.
    else if (block.type === 'fallback') this.#calls = 0;
  }

  *#end(event: JsonObject): Generator<TurnDelta, void> {
    const streamed = this.#blocks.at(event);
    if (streamed === undefined || streamed.ended) return;
    streamed.ended = true;
    const { block } = streamed;
    if (block.type !== 'thinking' && block.type !== 'redacted_thinking') return;
    const text = textIn(block.thinking);
    if (text === '') this.#sealed = [...this.#sealed, 0];
    yield { type: 'reasoning_ended', item: { type: 'reasoning', text, opaque: keepBlock(block) } };
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

  /** Opens the block of a delta without a `content_block_start`; a call would have no name then. */
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

/**
 * Leaves out what the provider does not take back of a model that declined halfway, before the block that names the one
 * that took over: its thinking, its calls, and calls of the provider's tools without a result. See
 * https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback#continuing-the-conversation.
 */
function withoutDeclined(content: readonly ReadBlock[]): readonly ReadBlock[] {
  const end = content.findLastIndex(({ block }) => block.type === 'fallback');
  if (end < 0) return content;
  const answered = new Set(content.map(({ block }) => block.tool_use_id));
  return content.filter(({ block }, at) => {
    if (at >= end) return true;
    const type = textIn(block.type);
    if (/thinking$|^tool_use$|^connector_text$/.test(type)) return false;
    return !/_tool_use$/.test(type) || answered.has(block.id);
  });
}

function setKnown(target: JsonObject, members: JsonObject): void {
  for (const [name, value] of Object.entries(members)) if (value !== null) target[name] = value;
}

type StreamedBlock = {
  index: number;
  block: JsonObject;
  pieces: string[];
  ended: boolean;
  callIndex?: number;
};

/**
 * Collects the content blocks of a streamed message.
 *
 * B1 An event belongs to the latest block with its index; without an index, to the block of the previous
 *    event. Blocks may be interleaved.
 * B2 A block with a known id is a repetition; so is a block without an id that starts again while it is open.
 *    A block that starts after the end of the open one, or with another type, is a new block.
 * B3 Inputs are parsed only after the message has ended. Streamed pieces replace the initial input.
 */
export class StreamedBlocks {
  readonly #blocks: StreamedBlock[] = [];
  readonly #latest = new Map<number, StreamedBlock>();
  readonly #ids = new Set<string>();
  #last: StreamedBlock | undefined;

  begin(event: JsonObject, block: JsonObject): StreamedBlock | undefined {
    const known = this.at(event);
    const isRepeated =
      known && !known.ended && known.block.type === block.type && known.block.id === block.id;
    const id = nonEmpty(block.id);
    if (isRepeated || (id !== undefined && this.#ids.has(id))) return undefined;
    if (id !== undefined) this.#ids.add(id);
    const index = integerIn(event.index) ?? this.#blocks.length;
    const streamed: StreamedBlock = { index, block: { ...block }, pieces: [], ended: false };
    this.#blocks.push(streamed);
    this.#latest.set(index, streamed);
    this.#last = streamed;
    return streamed;
  }

  at(event: JsonObject): StreamedBlock | undefined {
    const index = integerIn(event.index);
    const found = index === undefined ? this.#last : this.#latest.get(index);
    if (found) this.#last = found;
    return found;
  }

  content(): ReadBlock[] {
    return this.#blocks.toSorted((a, b) => a.index - b.index).map(assembled);
  }
}

/** Applies a `content_block_delta`. A delta of an unknown type sets its members on the block. */
function extend(streamed: StreamedBlock, delta: JsonObject): void {
  const { block, pieces } = streamed;
  switch (delta.type) {
    case 'text_delta':
      block.text = textIn(block.text) + textIn(delta.text);
      return;
    case 'thinking_delta':
      block.thinking = textIn(block.thinking) + textIn(delta.thinking);
      return;
    case 'input_json_delta':
      pieces.push(textIn(delta.partial_json));
      return;
    case 'citations_delta':
      if (delta.citation === undefined) return;
      if (Array.isArray(block.citations)) block.citations.push(delta.citation);
      else block.citations = [delta.citation];
      return;
    default: {
      const { type: _, ...members } = delta;
      Object.assign(block, members);
    }
  }
}

function assembled({ block, pieces }: StreamedBlock): ReadBlock {
  const written = pieces.join('');
  if (written === '') return { block, written };
  return { block: { ...block, input: jsonIn(written) ?? objectOf(block.input) }, written };
}
