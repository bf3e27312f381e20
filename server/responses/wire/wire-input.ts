import { describeOutput, readContent } from '../../../protocol/content/read-content.ts';
import type { Item, Part, ToolCallItem } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { refusalIn } from '../answer/turn-items.ts';
import { compactionOf } from '../compaction/compaction-items.ts';
import { customCall } from './custom-call.ts';
import { providerItem } from './provider-items.ts';
import { type Exposed, isCustomTool, toolNamed } from './response-spec.ts';
import { toolListItem } from './tool-list.ts';

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
      if (custom.has(callId)) return [customCall({ id, callId, name, arguments: written })];
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
    case 'provider_item':
      return [providerItem(item, item.id ?? '')].filter(wire => wire !== undefined);
  }
}

function isCustomCall({ name, opaque }: ToolCallItem, exposed: Exposed): boolean {
  const isMarked = isJsonObject(opaque?.data) && opaque.data.custom === true;
  return isMarked || isCustomTool(toolNamed(exposed, name));
}

/** A part of a message or a result in the API's format; `isOutput`: as a part of the model's message. */
export function wirePart(part: Part, { isOutput }: { isOutput: boolean }): JsonObject {
  switch (part.type) {
    case 'text':
      return isOutput
        ? { type: 'output_text', text: part.text, annotations: part.annotations ?? [], logprobs: [] }
        : { type: 'input_text', text: part.text };
    case 'image':
      return { type: 'input_image', image_url: part.url, detail: part.detail ?? 'auto' };
    case 'file':
      return part.url.startsWith('data:')
        ? { type: 'input_file', filename: part.name ?? 'file', file_data: part.url }
        : { type: 'input_file', filename: part.name ?? null, file_url: part.url };
  }
}

/** The output of a function: a text, or the parts of a content. */
export function wireOutput(output: JsonValue): JsonValue {
  return (
    readContent(output)?.parts.map(part => wirePart(part, { isOutput: false })) ?? describeOutput(output)
  );
}
