import type { Item } from '../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, ToolCall, Usage } from '../../protocol/turn.ts';
import { failed } from '../streams/tool-call-from.ts';
import { CallIds } from '../turn/call-ids.ts';
import { arrayOf, jsonIn, nonEmpty, objectOf, textIn } from '../turn/json-access.ts';
import { toolCall } from '../turn/tool-call.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { keepBlock } from './wire-block.ts';

/**
 * A content block. From a stream also `written`, the text of its `input` as streamed; empty if none was
 * streamed.
 */
export type ReadBlock = { block: JsonObject; written?: string };

/**
 * Builds the turn of a completed message. `outputTool` is the name of the tool that takes the answer: if only
 * that tool is called, its input is the answer; otherwise the other calls are used and it is ignored.
 */
export function turnOf(
  message: JsonObject,
  content: readonly ReadBlock[],
  request: ModelRequest,
  outputTool: string | undefined,
  model: string,
): ModelTurn {
  const reader = new ContentReader(request.transcript, content, outputTool, isCutOff(message));
  content.forEach((read, at) => {
    reader.read(read, at);
  });
  const { text, reasoning, toolCalls, items } = reader;
  return {
    text,
    reasoning,
    toolCalls,
    finishReason: finishReasonOf(message, { hasCalls: toolCalls.length > 0 }),
    usage: usageOf(objectOf(message.usage)),
    model: nonEmpty(message.model) ?? model,
    items,
  };
}

class ContentReader {
  text = '';
  reasoning = '';
  toolCalls: ToolCall[] = [];
  items: Item[] = [];
  readonly #ids: CallIds;
  readonly #outputTool: string | undefined;
  /** The position of the block that holds the answer as a call; -1 if there is none. */
  readonly #answer: number;
  /** The position of the block that the length limit cut off; -1 if there is none. */
  readonly #cutOff: number;

  constructor(
    transcript: ModelRequest['transcript'],
    content: readonly ReadBlock[],
    outputTool: string | undefined,
    isCut: boolean,
  ) {
    const calls = content.map(({ block }) => (block.type === 'tool_use' ? textIn(block.name) : undefined));
    const isReal = (name: string | undefined) => name !== undefined && name !== outputTool;
    this.#ids = new CallIds(transcript);
    this.#outputTool = outputTool;
    this.#answer = outputTool === undefined || calls.some(isReal) ? -1 : calls.indexOf(outputTool);
    this.#cutOff = isCut ? content.length - 1 : -1;
  }

  read({ block, written }: ReadBlock, at: number): void {
    switch (block.type) {
      case 'text':
        this.#readText(block);
        return;
      case 'thinking':
      case 'redacted_thinking':
        this.reasoning += textIn(block.thinking);
        this.items.push({ type: 'reasoning', text: textIn(block.thinking), opaque: keepBlock(block) });
        return;
      case 'tool_use':
        if (at === this.#answer) this.#addMessage(answerText(block, written), block);
        else if (block.name === this.#outputTool) this.#keep(block);
        else this.#readCall(block, written, { isCutOff: at === this.#cutOff });
        return;
      default:
        this.#keep(block);
    }
  }

  /** Text next to an answer that is a call is not part of the answer. */
  #readText(block: JsonObject): void {
    const text = textIn(block.text);
    if (text === '') return;
    if (this.#answer >= 0) this.#keep(block);
    else this.#addMessage(text, block);
  }

  #addMessage(text: string, block: JsonObject): void {
    const annotations = arrayOf(block.citations);
    const part = { type: 'text' as const, text, ...(annotations.length > 0 ? { annotations } : {}) };
    this.text += text;
    this.items.push({ type: 'message', role: 'assistant', content: [part], opaque: keepBlock(block) });
  }

  #readCall(block: JsonObject, written: string | undefined, { isCutOff }: { isCutOff: boolean }): void {
    const callId = this.#ids.name(nonEmpty(block.id), this.toolCalls.length);
    const made = toolCall(callId, textIn(block.name), written || JSON.stringify(block.input ?? {}));
    const hasNoInput = isCutOff && written === '' && made.arguments === '{}';
    const call = hasNoInput ? failed(made, CUT_OFF) : made;
    this.toolCalls.push(call);
    const { name, arguments: text } = call;
    this.items.push({ type: 'tool_call', callId, name, arguments: text, opaque: keepBlock(block) });
  }

  #keep(block: JsonObject): void {
    const kind = nonEmpty(block.type) ?? 'unknown';
    this.items.push({ type: 'provider_item', kind, opaque: keepBlock(block) });
  }
}

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

/** The API reports the input in three disjoint counts; a missing count is 0. */
function usageOf(usage: JsonObject): Usage | null {
  const cached = countIn(usage.cache_read_input_tokens);
  const written = countIn(usage.cache_creation_input_tokens);
  const { input_tokens: uncached } = usage;
  return normalizeUsage({
    input: typeof uncached === 'number' ? uncached + cached + written : undefined,
    output: usage.output_tokens,
    cachedInput: cached,
    cacheWrite: written,
    reasoning: objectOf(usage.output_tokens_details).thinking_tokens,
  });
}

function countIn(value: JsonValue | undefined): number {
  return typeof value === 'number' ? Math.max(0, value) : 0;
}
