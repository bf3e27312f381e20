import type { ControlItem } from '../../../protocol/item.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';

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
