import type { ControlItem } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';

export type ToolListItem = Extract<ControlItem, { type: 'tool_list' }>;

/** A server's tools as an output item. What is not known is left out: some clients refuse `null` here. */
export function toolListItem({ id, label, tools, error }: ToolListItem): JsonObject & { id: string } {
  return {
    id: id ?? '',
    type: 'mcp_list_tools',
    server_label: label,
    tools,
    ...(error === undefined ? {} : { error }),
  };
}
