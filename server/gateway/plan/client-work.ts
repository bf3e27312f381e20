/** Calls whose work the client does while the conversation continues: those of `async` tools of OpenAI's Responses API. */
import { objectOf } from '../../../adapters/turn/json-access.ts';
import { describeOutput, readContent } from '../../../protocol/content/read-content.ts';
import type { Item, MessageItem, Part, ToolCallItem, ToolResultItem } from '../../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { outcomeMessage } from '../../../protocol/message.ts';
import { invalid, type ResponsesError } from '../../openai-error.ts';
import { wirePart } from '../request/gateway-request.ts';
import { callTypeFor, type ExposedTool, RESPONSES } from '../runs/response-spec.ts';

/** `as`: the type of its item. `isOver`: its output has come. */
export type WorkCall = { name: string; as: string; isOver: boolean };

/** Whether the item is the result that such a call has at once. */
export function isReceiptItem(item: Item): item is ToolResultItem {
  return item.type === 'tool_result' && item.receipt === 'client';
}

/** The calls among the items, by id; `undefined` for one that is none of the client's work. */
export function workIn(
  items: readonly Item[],
  toolOf: (call: ToolCallItem) => ExposedTool | undefined,
): Map<string, WorkCall | undefined> {
  const calls = new Map<string, ToolCallItem>();
  const work = new Map<string, WorkCall | undefined>();
  for (const item of items) {
    if (item.type === 'tool_call') {
      calls.set(item.callId, item);
      work.set(item.callId, undefined);
    }
    const call = isReceiptItem(item) ? calls.get(item.callId) : undefined;
    if (call !== undefined) {
      const { as } = objectOf(call.opaque?.data);
      const type = typeof as === 'string' ? as : callTypeFor(toolOf(call));
      work.set(call.callId, { name: call.name, as: type, isOver: false });
    }
    if (item.type === 'message' && item.outcomeOf !== undefined)
      work.set(item.outcomeOf.callId, { name: '', as: '', isOver: true });
  }
  return work;
}

/** The outcomes in the input of a request, which may be for calls in it or before it. */
export class OutcomesInInput {
  readonly #work = new Map<string, WorkCall | undefined>();
  readonly #toolOf: (call: ToolCallItem) => ExposedTool | undefined;
  readonly #find: (callId: string) => Promise<WorkCall | undefined>;

  /** `find`: a call that is not in the input. */
  constructor(known: {
    toolOf(call: ToolCallItem): ExposedTool | undefined;
    find(callId: string): Promise<WorkCall | undefined>;
  }) {
    this.#toolOf = known.toolOf;
    this.#find = known.find;
  }

  /**
   * The items with these outputs as messages, each after the results of the calls before it. Throws a `ResponsesError` for
   * a second output of a call.
   */
  async read(items: readonly Item[]): Promise<Item[]> {
    for (const [callId, call] of workIn(items, this.#toolOf)) this.#work.set(callId, call);
    const read: Item[] = [];
    const open = new Set<string>();
    let held: Item[] = [];
    for (const item of items) {
      const outcome = item.type === 'tool_result' ? await this.#outcomeIn(item) : undefined;
      if (outcome === undefined) read.push(item);
      else held.push(outcome);
      if (item.type === 'tool_call') open.add(item.callId);
      if (item.type === 'tool_result') open.delete(item.callId);
      if (open.size > 0) continue;
      read.push(...held);
      held = [];
    }
    return [...read, ...held];
  }

  async #outcomeIn(item: ToolResultItem): Promise<Item | undefined> {
    if (isReceiptItem(item)) return undefined;
    const { id, callId, output, isError } = item;
    const call = this.#work.has(callId) ? this.#work.get(callId) : await this.#find(callId);
    if (call === undefined) return undefined;
    if (call.isOver) throw unknownCallError(callId);
    const { name, as } = call;
    this.#work.set(callId, { ...call, isOver: true });
    const content: Part[] = readContent(output)?.parts ?? [{ type: 'text', text: describeOutput(output) }];
    const message = outcomeMessage({ callId, name, isError }, content);
    return { ...omitUndefined({ id }), ...message, opaque: { provider: RESPONSES, data: { as } } };
  }
}

/** The output that such a message was made of, and the type of its call. */
export function outputIn({ content, opaque }: MessageItem): { as: string; output: JsonValue } {
  const { as } = objectOf(opaque?.provider === RESPONSES ? opaque.data : null);
  const [, first, ...others] = content;
  const isText = first?.type === 'text' && others.length === 0;
  return {
    as: typeof as === 'string' ? as : 'function_call',
    output: isText ? first.text : content.slice(1).map(part => wirePart(part, { isOutput: false })),
  };
}

export function unknownCallError(callId: string): ResponsesError {
  const message = `No tool call found for function call output with call_id ${callId}.`;
  return invalid('input', 'tool_call_not_found', message);
}
