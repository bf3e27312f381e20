import type { Item, Part } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, ToolCall, Usage } from '../../protocol/turn.ts';
import { CallIds } from '../turn/call-ids.ts';
import { arrayOf, nonEmpty, objectOf, objectsOf, textIn } from '../turn/json-access.ts';
import { toolCall } from '../turn/tool-call.ts';
import { normalizeUsage } from '../turn/usage.ts';
import type { ResponsesDialect } from './dialect.ts';
import { type Kept, keyOf } from './wire-item.ts';

/**
 * Builds the turn of a completed response. `output` is a separate argument because a stream may have
 * collected it.
 */
export function turnOf(
  response: JsonObject,
  output: readonly JsonObject[],
  request: ModelRequest,
  dialect: ResponsesDialect,
  model: string,
): ModelTurn {
  const reader = new OutputReader(dialect, new CallIds(request.transcript));
  output.forEach((item, at) => {
    reader.read(item, output[at + 1]);
  });
  const { text, reasoning, refused, toolCalls, items, renamed } = reader;
  const id = nonEmpty(response.id);
  const canContinue =
    dialect.remembers &&
    response.store !== false &&
    (response.status ?? 'completed') === 'completed' &&
    !renamed;
  return {
    text,
    reasoning,
    toolCalls,
    finishReason: finishReasonOf(response, { isRefused: refused, hasCalls: toolCalls.length > 0 }),
    usage: usageOf(response.usage),
    model: nonEmpty(response.model) ?? model,
    ...omitUndefined({ continuation: canContinue ? id : undefined }),
    items,
  };
}

/** Whether the item is a call that the client has to run. */
export function isOurCall(item: JsonObject, dialect: ResponsesDialect): boolean {
  return (
    item.type === 'function_call' || (item.type === 'custom_tool_call' && dialect.customTools === 'client')
  );
}

/** Returns the readable text of a reasoning item: its summary, else its content. */
export function reasoningText(item: JsonObject): string {
  const summary = joinedText(item.summary);
  return summary === '' ? joinedText(item.content) : summary;
}

function joinedText(parts: JsonValue | undefined): string {
  return objectsOf(parts)
    .map(part => textIn(part.text))
    .join('');
}

class OutputReader {
  text = '';
  reasoning = '';
  refused = false;
  /** A call was given an id that the provider does not know. */
  renamed = false;
  toolCalls: ToolCall[] = [];
  items: Item[] = [];
  readonly #dialect: ResponsesDialect;
  readonly #ids: CallIds;
  #after: string | undefined;

  constructor(dialect: ResponsesDialect, ids: CallIds) {
    this.#dialect = dialect;
    this.#ids = ids;
  }

  read(item: JsonObject, next: JsonObject | undefined): void {
    if (item.type === 'message') this.#readMessage(item);
    else if (item.type === 'reasoning') this.#readReasoning(item, next);
    else if (isOurCall(item, this.#dialect)) this.#readCall(item);
    else {
      const kind = nonEmpty(item.type) ?? 'unknown';
      this.items.push({ type: 'provider_item', kind, opaque: this.#opaque({ item, ...this.#origin() }) });
    }
  }

  /** A refusal is after the text of its message: text that follows it is a message of its own. */
  #readMessage(item: JsonObject): void {
    const empty = (): { content: Part[]; refusal: string } => ({ content: [], refusal: '' });
    let piece = empty();
    const pieces = [piece];
    for (const part of objectsOf(item.content)) {
      if (part.type === 'refusal') {
        this.refused = true;
        piece.refusal += textIn(part.refusal);
      } else if (typeof part.text === 'string') {
        if (piece.refusal !== '') {
          piece = empty();
          pieces.push(piece);
        }
        const annotations = arrayOf(part.annotations);
        piece.content.push({ type: 'text', text: part.text, ...(annotations.length > 0 && { annotations }) });
        this.text += part.text;
      }
    }
    for (const [at, { content, refusal }] of pieces.entries()) {
      const kept: Kept = {
        ...(at === 0 ? this.#origin(item) : { ...this.#origin(), more: true }),
        ...omitUndefined({ phase: nonEmpty(item.phase), refusal: refusal || undefined }),
      };
      this.items.push({ type: 'message', role: 'assistant', content, opaque: this.#opaque(kept) });
    }
  }

  #readReasoning(item: JsonObject, next: JsonObject | undefined): void {
    const text = reasoningText(item);
    this.reasoning += text;
    const kept: Kept = { item: withoutStatus(item), ...omitUndefined({ before: next && keyOf(next) }) };
    this.items.push({ type: 'reasoning', text, opaque: this.#opaque(kept) });
    this.#after = keyOf(item);
  }

  #readCall(item: JsonObject): void {
    const custom = item.type === 'custom_tool_call';
    const providerId = nonEmpty(item.call_id);
    const isTaken = this.toolCalls.some(call => call.callId === providerId);
    const callId = providerId && !isTaken ? providerId : this.#ids.name(null, this.toolCalls.length);
    if (callId !== providerId) this.renamed = true;
    const written = custom ? JSON.stringify({ input: textIn(item.input) }) : textIn(item.arguments);
    const call = toolCall(callId, textIn(item.name), written);
    this.toolCalls.push(call);
    const kept: Kept = {
      ...this.#origin(item),
      ...(custom ? { custom: true } : {}),
      ...omitUndefined({
        namespace: nonEmpty(item.namespace),
        caller: isJsonObject(item.caller) ? item.caller : undefined,
      }),
    };
    this.items.push({
      type: 'tool_call',
      callId,
      name: call.name,
      arguments: call.arguments,
      opaque: this.#opaque(kept),
    });
  }

  #origin(item: JsonObject = {}): Kept {
    return omitUndefined({ id: nonEmpty(item.id), after: this.#after });
  }

  #opaque(data: Kept): { provider: string; data: JsonValue } {
    return { provider: this.#dialect.provider, data };
  }
}

function withoutStatus({ status: _, ...item }: JsonObject): JsonObject {
  return item;
}

function finishReasonOf(
  response: JsonObject,
  { isRefused, hasCalls }: { isRefused: boolean; hasCalls: boolean },
): FinishReason {
  switch (response.status ?? 'completed') {
    case 'completed':
      if (isRefused) return 'content_filter';
      return hasCalls ? 'tool_calls' : 'stop';
    case 'incomplete':
      return objectOf(response.incomplete_details).reason === 'content_filter' ? 'content_filter' : 'length';
    case 'failed':
      return 'error';
    default:
      return 'unknown';
  }
}

/** OpenAI sends a cache write count of 0 if it has no such count. */
function usageOf(value: JsonValue | undefined): Usage | null {
  const usage = objectOf(value);
  const input = objectOf(usage.input_tokens_details);
  return normalizeUsage({
    input: usage.input_tokens,
    output: usage.output_tokens,
    cachedInput: input.cached_tokens,
    cacheWrite: input.cache_write_tokens || undefined,
    reasoning: objectOf(usage.output_tokens_details).reasoning_tokens,
  });
}
