import { describeOutput, readContent } from '../../protocol/content/read-content.ts';
import type { ControlItem, Item, ToolCallItem } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import {
  argumentOf,
  compactionOf,
  type Exposed,
  isCustomTool,
  providedCall,
  refusalIn,
  toolNamed,
  wirePart,
} from '../gateway/index.ts';

/** Input items in the format of `input_items`. A call that a gateway ran appears as a function call. */
export function wireInputs(items: readonly Item[], exposed: Exposed): JsonObject[] {
  const custom = new Set(
    items.flatMap(item => (item.type === 'tool_call' && isCustomCall(item, exposed) ? [item.callId] : [])),
  );
  return items.flatMap(item => wireInput(item, custom));
}

/** The type and status of a result. */
export function resultHead({ isCustom }: { isCustom: boolean }) {
  return { type: isCustom ? 'custom_tool_call_output' : 'function_call_output', status: 'completed' };
}

/** `custom` are the ids of calls of custom tools. */
function wireInput(item: Item, custom: ReadonlySet<string>): JsonObject[] {
  const id = item.id ?? null;
  const compaction = compactionOf(item);
  if (compaction !== undefined) return [{ ...compaction, id: id ?? compaction.id ?? null }];
  switch (item.type) {
    case 'message': {
      const data = item.opaque?.data;
      const phase = isJsonObject(data) && typeof data.phase === 'string' ? { phase: data.phase } : {};
      const refusal = refusalIn([item]);
      const content = [
        ...item.content.map(part => wirePart(part, { isOutput: item.role === 'assistant' })),
        ...(refusal === '' ? [] : [{ type: 'refusal', refusal }]),
      ];
      return [{ id, type: 'message', status: 'completed', role: item.role, content, ...phase }];
    }
    case 'reasoning':
      return [
        {
          id,
          type: 'reasoning',
          summary: item.text === '' ? [] : [{ type: 'summary_text', text: item.text }],
        },
      ];
    case 'tool_call': {
      const { callId, name, arguments: written } = item;
      if (custom.has(callId)) return [customCallItem({ id, callId, name, arguments: written })];
      return [{ id, type: 'function_call', status: 'completed', call_id: callId, name, arguments: written }];
    }
    case 'tool_result':
      return [
        {
          id,
          ...resultHead({ isCustom: custom.has(item.callId) }),
          call_id: item.callId,
          output: wireOutput(item.output),
        },
      ];
    case 'tool_list':
      return [toolListItem(item)];
    case 'approval_request': {
      const { name, arguments: written, label = '' } = item;
      return [{ id, type: 'mcp_approval_request', server_label: label, name, arguments: written }];
    }
    case 'approval_response': {
      const { callId, approve, reason = null } = item;
      return [{ id, type: 'mcp_approval_response', approval_request_id: callId, approve, reason }];
    }
    case 'provider_item': {
      const provided = providedCall(item);
      return provided === undefined ? [] : [{ ...provided.item, id: item.id ?? '' }];
    }
  }
}

function isCustomCall({ name, opaque }: ToolCallItem, exposed: Exposed): boolean {
  const isMarked = isJsonObject(opaque?.data) && opaque.data.custom === true;
  return isMarked || isCustomTool(toolNamed(exposed, name));
}

/** The output of a function: a text, or the parts of a content. */
export function wireOutput(output: JsonValue): JsonValue {
  return (
    readContent(output)?.parts.map(part => wirePart(part, { isOutput: false })) ?? describeOutput(output)
  );
}

/** The transcript item with a server's tools. */
type ToolListItem = Extract<ControlItem, { type: 'tool_list' }>;

/** A server's tools as an output item. Omits an absent error, because some clients refuse `null` here. */
export function toolListItem({ id, label, tools, error }: ToolListItem): JsonObject & { id: string } {
  return {
    id: id ?? '',
    type: 'mcp_list_tools',
    server_label: label,
    tools,
    ...omitUndefined({ error }),
  };
}

/** A call of a custom tool as an item. `arguments` is the JSON text of an object with the call's `input`. */
export function customCallItem(call: { id: string | null; callId: string; name: string; arguments: string }) {
  const { id, callId, name } = call;
  const input = argumentOf(call, 'input') ?? call.arguments;
  return { id, type: 'custom_tool_call' as const, status: 'completed', call_id: callId, name, input };
}
