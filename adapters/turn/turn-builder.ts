import type { Item, Opaque } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { FinishReason, ModelRequest, ModelTurn, ToolCall } from '../../protocol/turn.ts';
import { CallIds } from './tool-calls.ts';

/** How many items of the transcript a turn reports as left out: providers name them again with every answer. */
export const MOST_DROPPED = 100;

/** Builds a turn from its parts, in the order in which the model wrote them. `opaque` is what a part needs to go back. */
export class TurnBuilder {
  text = '';
  reasoning = '';
  readonly toolCalls: ToolCall[] = [];
  readonly items: Item[] = [];
  readonly #ids: CallIds;

  constructor({ transcript }: Pick<ModelRequest, 'transcript'>) {
    this.#ids = new CallIds(transcript);
  }

  addReasoning(text: string, opaque?: Opaque): void {
    this.reasoning += text;
    this.items.push({ type: 'reasoning', text, ...(opaque && { opaque }) });
  }

  addText(text: string, opaque?: Opaque, annotations: JsonValue[] = []): void {
    const part = { type: 'text' as const, text, ...(annotations.length > 0 && { annotations }) };
    this.text += text;
    this.items.push({ type: 'message', role: 'assistant', content: [part], ...(opaque && { opaque }) });
  }

  /** Returns the id of the next call: the provider's, unless it has none or it is taken. */
  nextCallId(providerId?: string | null): string {
    return this.#ids.name(providerId, this.toolCalls.length);
  }

  addCall(call: ToolCall, opaque?: Opaque): void {
    const { callId, name, arguments: written } = call;
    this.toolCalls.push(call);
    this.items.push({ type: 'tool_call', callId, name, arguments: written, ...(opaque && { opaque }) });
  }

  addProviderItem(kind: string, opaque: Opaque): void {
    this.items.push({ type: 'provider_item', kind, opaque });
  }

  turn(ending: Omit<ModelTurn, 'text' | 'reasoning' | 'toolCalls' | 'items'>): ModelTurn {
    const { text, reasoning, toolCalls, items } = this;
    return { text, reasoning, toolCalls, ...ending, items };
  }
}

/** Returns finish reasons by a provider's names; each group is a reason and the names that mean it. */
export function finishReasons(...groups: [FinishReason, ...string[]][]): ReadonlyMap<string, FinishReason> {
  return new Map(groups.flatMap(([reason, ...names]) => names.map(name => [name, reason] as const)));
}
