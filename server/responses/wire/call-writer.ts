import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import type { CallTools } from '../gateway/call-tools.ts';
import { type CallEnd, type ItemEvent, type PlacedCall, shapeOf } from './call-shapes.ts';
import { customCall } from './custom-call.ts';
import { type ExposedTool, isCustomTool, isHidden, isServerTool } from './response-spec.ts';
import type { ResponseWriter } from './response-writer.ts';
import { itemIdOf } from './wire-ids.ts';

/** Writes calls as output items. Calls of hidden servers and unknown tools are never written. */
export class CallWriter {
  readonly #writer: ResponseWriter;
  readonly #tools: CallTools;
  readonly #include: readonly JsonValue[];
  readonly #running = new Map<string, { index: number; call: PlacedCall }>();

  /** `include` is the request's: what to show of calls. */
  constructor(writer: ResponseWriter, tools: CallTools, include: readonly JsonValue[]) {
    this.#writer = writer;
    this.#tools = tools;
    this.#include = include;
  }

  /** Opens the item of a call that the gateway runs. */
  start(call: PlacedCall): void {
    const shape = shapeOf(this.#shownToolOf(call));
    if (shape === undefined || this.#running.has(call.callId)) return;
    const { item, events } = shape.opened(call);
    const index = this.#writer.open(item);
    this.#running.set(call.callId, { index, call });
    this.#write(events, { item_id: item.id, output_index: index });
  }

  /** Whether the call's item is open. */
  isRunning(callId: string): boolean {
    return this.#running.has(callId);
  }

  /** Closes the call's item with its outcome. */
  settle(callId: string, end: CallEnd): void {
    const running = this.#running.get(callId);
    const shape = running && shapeOf(this.#shownToolOf(running.call));
    if (running === undefined || shape === undefined) return;
    this.#running.delete(callId);
    const { index, call } = running;
    const { item, events } = shape.closed(call, end, this.#include);
    this.#write(events, { item_id: item.id, output_index: index });
    this.#writer.close(index, item);
  }

  /** Closes all open items with an error. */
  abandon(error: string): void {
    for (const callId of [...this.#running.keys()]) this.settle(callId, { error });
  }

  /** Writes an approval request for an MCP call. */
  askApproval(call: PlacedCall): void {
    const server = this.#shownToolOf(call);
    if (!isServerTool(server)) return;
    const item = {
      id: itemIdOf({ ...call, kind: 'mcpr' }),
      type: 'mcp_approval_request',
      server_label: server.label,
      name: server.name,
      arguments: call.arguments || '{}',
    };
    this.#writer.close(this.#writer.open(item), item);
  }

  /** Writes a call of the client's function or custom tool. */
  handOver(call: PlacedCall): void {
    const tool = this.#tools.of(call.callId);
    const made = { ...call, name: tool?.name ?? call.name };
    if (isCustomTool(tool)) this.#handOverCustom(made);
    else this.#handOverFunction(made);
  }

  #handOverFunction(call: PlacedCall): void {
    const { name } = call;
    const item = {
      id: itemIdOf({ ...call, kind: 'fc' }),
      type: 'function_call',
      status: 'completed',
      call_id: call.callId,
      name,
      arguments: call.arguments || '{}',
    };
    const index = this.#writer.open({ ...item, status: 'in_progress', arguments: '' });
    const place = { item_id: item.id, output_index: index };
    this.#writer.write('response.function_call_arguments.delta', { ...place, delta: item.arguments });
    this.#writer.write('response.function_call_arguments.done', {
      ...place,
      name,
      arguments: item.arguments,
    });
    this.#writer.close(index, item);
  }

  #handOverCustom(call: PlacedCall): void {
    const id = itemIdOf({ ...call, kind: 'ctc' });
    const item = customCall({ ...call, id });
    const { input } = item;
    const index = this.#writer.open({ ...item, status: 'in_progress', input: '' });
    const place = { item_id: id, output_index: index };
    if (input !== '') this.#writer.write('response.custom_tool_call_input.delta', { ...place, delta: input });
    this.#writer.write('response.custom_tool_call_input.done', { ...place, input });
    this.#writer.close(index, item);
  }

  #write(events: readonly ItemEvent[], place: JsonObject): void {
    for (const { type, ...fields } of events) this.#writer.write(type, { ...place, ...fields });
  }

  #shownToolOf({ callId }: PlacedCall): ExposedTool | undefined {
    const tool = this.#tools.of(callId);
    return tool === undefined || isHidden(tool) ? undefined : tool;
  }
}
