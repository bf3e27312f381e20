import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import type { CallTools } from '../gateway/call-tools.ts';
import { customCall } from './custom-call.ts';
import { isCustomTool, isServerTool, type ServerTool } from './response-spec.ts';
import type { ResponseWriter } from './response-writer.ts';
import { itemIdOf } from './wire-ids.ts';

/** A call and its place among the calls of its turn. */
export type PlacedCall = {
  runId: string;
  turn: number;
  place: number;
  callId: string;
  name: string;
  /** The JSON text that the model wrote. */
  arguments: string;
  gate: boolean;
};

/** The outcome of a call. */
type CallEnd = { output: JsonValue } | { error: string };

/** Writes calls as output items. Calls of hidden servers and unknown tools are never written. */
export class CallWriter {
  readonly #writer: ResponseWriter;
  readonly #tools: CallTools;
  readonly #running = new Map<string, { index: number; call: PlacedCall }>();

  constructor(writer: ResponseWriter, tools: CallTools) {
    this.#writer = writer;
    this.#tools = tools;
  }

  /** Opens the item of an MCP call. */
  start(call: PlacedCall): void {
    const server = this.#serverOf(call);
    if (server === undefined || this.#running.has(call.callId)) return;
    const item = { ...mcpCall(call, server), status: 'in_progress', arguments: '' };
    const index = this.#writer.open(item);
    this.#running.set(call.callId, { index, call });
    const place = { item_id: item.id, output_index: index };
    this.#writer.write('response.mcp_call.in_progress', place);
    if (call.arguments !== '')
      this.#writer.write('response.mcp_call_arguments.delta', { ...place, delta: call.arguments });
    this.#writer.write('response.mcp_call_arguments.done', { ...place, arguments: call.arguments });
  }

  /** Whether the call's item is open. */
  isRunning(callId: string): boolean {
    return this.#running.has(callId);
  }

  /** Closes the call's item with its outcome. */
  settle(callId: string, end: CallEnd): void {
    const running = this.#running.get(callId);
    const server = running && this.#serverOf(running.call);
    if (running === undefined || server === undefined) return;
    this.#running.delete(callId);
    const { index, call } = running;
    const failed = 'error' in end;
    const item = {
      ...mcpCall(call, server),
      status: failed ? 'failed' : 'completed',
      ...(failed ? { error: end.error } : { output: asText(end.output) }),
    };
    const place = { item_id: item.id, output_index: index };
    this.#writer.write(`response.mcp_call.${failed ? 'failed' : 'completed'}`, place);
    this.#writer.close(index, item);
  }

  /** Closes all open items with an error. */
  abandon(error: string): void {
    for (const callId of [...this.#running.keys()]) this.settle(callId, { error });
  }

  /** Writes an approval request for an MCP call. */
  askApproval(call: PlacedCall): void {
    const server = this.#serverOf(call);
    if (server === undefined) return;
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

  #serverOf({ callId }: PlacedCall): ServerTool | undefined {
    const tool = this.#tools.of(callId);
    return isServerTool(tool) && tool.hidden !== true ? tool : undefined;
  }
}

function mcpCall(call: PlacedCall, server: ServerTool) {
  const item = {
    id: itemIdOf({ ...call, kind: 'mcp' }),
    type: 'mcp_call',
    approval_request_id: call.gate ? itemIdOf({ ...call, kind: 'mcpr' }) : null,
    server_label: server.label,
    name: server.name,
    arguments: call.arguments,
    output: null,
    error: null,
  };
  return item satisfies JsonObject;
}

/** A call's output as text. */
export function asText(output: JsonValue): string {
  return typeof output === 'string' ? output : JSON.stringify(output);
}
