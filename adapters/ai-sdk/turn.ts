import type { LanguageModelV4Content, LanguageModelV4Text, LanguageModelV4ToolCall } from '@ai-sdk/provider';
import type { Item, Part } from '../../protocol/item.ts';
import { type JsonValue, toJson } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, ToolCall, Usage } from '../../protocol/turn.ts';
import { malformedStream, type ProviderContext } from '../http/provider-errors.ts';
import { CallIds } from '../turn/call-ids.ts';
import { arrayOf, objectOf } from '../turn/json-access.ts';
import { toolCall } from '../turn/tool-call.ts';
import { normalizeUsage } from '../turn/usage.ts';
import { generatedFile } from './generated-file.ts';
import { keptWith } from './opaque-data.ts';
import { providerItem } from './provider-item.ts';

/** The result of a model call. The shapes of usage and finish reason depend on the model's specification. */
export type Ended = {
  content: readonly LanguageModelV4Content[];
  finishReason: unknown;
  usage: unknown;
  modelId: string | undefined;
};

/** Builds the turn of a completed call. Throws a `ProviderError` if the answer was interrupted. */
export function turnOf(ended: Ended, request: ModelRequest, context: ProviderContext): ModelTurn {
  const reader = new ContentReader(context.provider, new CallIds(request.transcript));
  for (const content of ended.content) reader.read(content);
  const { text, reasoning, toolCalls, items } = reader;
  return {
    text,
    reasoning,
    toolCalls,
    finishReason: finishReasonOf(ended.finishReason, reader, context),
    usage: usageOf(ended.usage),
    model: ended.modelId ?? context.model,
    items,
  };
}

/** Returns the input of a call as JSON text; some models return an object instead. */
export function inputText(call: LanguageModelV4ToolCall): string {
  const input: unknown = call.input;
  return typeof input === 'string' ? input : JSON.stringify(input ?? {});
}

class ContentReader {
  text = '';
  reasoning = '';
  toolCalls: ToolCall[] = [];
  items: Item[] = [];
  providerRan = false;
  readonly #provider: string;
  readonly #ids: CallIds;

  constructor(provider: string, ids: CallIds) {
    this.#provider = provider;
    this.#ids = ids;
  }

  read(content: LanguageModelV4Content): void {
    switch (content.type) {
      case 'text':
        this.text += content.text;
        this.#addMessage(textPart(content), content.text, content.providerMetadata);
        return;
      case 'file':
        this.#addMessage(generatedFile(content), '', content.providerMetadata);
        return;
      case 'reasoning': {
        const kept = keptWith(this.#provider, content.text, content.providerMetadata);
        this.reasoning += content.text;
        if (content.text !== '' || 'opaque' in kept) {
          this.items.push({ type: 'reasoning', text: content.text, ...kept });
        }
        return;
      }
      case 'tool-call':
        if (content.providerExecuted !== true) {
          this.#addCall(content);
          return;
        }
        this.providerRan = true;
        break;
      case 'tool-result':
        if (content.preliminary === true) return;
        break;
    }
    this.items.push(providerItem(this.#provider, content));
  }

  #addMessage(part: Part, text: string, metadata: unknown): void {
    const kept = keptWith(this.#provider, text, metadata);
    if (part.type === 'text' && text === '' && !('opaque' in kept)) return;
    this.items.push({ type: 'message', role: 'assistant', content: [part], ...kept });
  }

  #addCall(content: LanguageModelV4ToolCall): void {
    const callId = this.#ids.name(content.toolCallId, this.toolCalls.length);
    const call = toolCall(callId, content.toolName, inputText(content));
    this.toolCalls.push(call);
    this.items.push({
      type: 'tool_call',
      callId,
      name: call.name,
      arguments: call.arguments,
      ...keptWith(this.#provider, callId, content.providerMetadata),
    });
  }
}

function textPart({ text, citations }: LanguageModelV4Text): Part {
  const annotations = arrayOf(toJson(citations ?? []));
  return { type: 'text', text, ...(annotations.length > 0 ? { annotations } : {}) };
}

/**
 * Before specification v3 the value is only the unified reason. Anthropic's pause is only visible in the raw
 * reason.
 */
function finishReasonOf(
  value: unknown,
  { toolCalls, providerRan }: ContentReader,
  context: ProviderContext,
): FinishReason {
  const reason = toJson(value ?? null);
  const { unified, raw } = typeof reason === 'string' ? { unified: reason, raw: '' } : objectOf(reason);
  switch (unified) {
    case 'length':
      return 'length';
    case 'content-filter':
      return 'content_filter';
    case 'error':
      return 'error';
    case 'interrupted':
      throw malformedStream('truncated stream: it was interrupted before its end.', context);
    case 'tool-calls':
      return toolCalls.length === 0 && providerRan ? 'stop' : 'tool_calls';
    case 'stop':
      if (toolCalls.length > 0) return 'tool_calls';
      return raw === 'pause_turn' ? 'pause' : 'stop';
    default:
      return toolCalls.length > 0 ? 'tool_calls' : 'unknown';
  }
}

/** Before specification v3 the counts are plain numbers. */
function usageOf(value: unknown): Usage | null {
  const usage = objectOf(toJson(value ?? null));
  const input = objectOf(usage.inputTokens);
  const output = objectOf(usage.outputTokens);
  return normalizeUsage({
    input: flat(usage.inputTokens) ?? input.total ?? sum(input.noCache, input.cacheRead, input.cacheWrite),
    output: flat(usage.outputTokens) ?? output.total ?? sum(output.text, output.reasoning),
    cachedInput: usage.cachedInputTokens ?? input.cacheRead,
    cacheWrite: input.cacheWrite,
    reasoning: usage.reasoningTokens ?? output.reasoning,
  });
}

function flat(count: JsonValue | undefined): number | undefined {
  return typeof count === 'number' ? count : undefined;
}

function sum(...counts: (JsonValue | undefined)[]): number | undefined {
  const known = counts.filter(count => typeof count === 'number');
  return known.length === 0 ? undefined : known.reduce((total, count) => total + count, 0);
}
