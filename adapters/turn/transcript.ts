import type { Item, MessageItem, ToolResultItem } from '../../protocol/item.ts';

type ControlItem = Extract<Item, { type: 'approval_request' | 'approval_response' | 'tool_list' }>;

export function isControl(item: Item): item is ControlItem {
  return item.type === 'approval_request' || item.type === 'approval_response' || item.type === 'tool_list';
}

/** Whether the item follows a turn of the model: a result, or a message that the model did not write. */
export function closesTurn(
  item: Item,
): item is ToolResultItem | (MessageItem & { role: Exclude<MessageItem['role'], 'assistant'> }) {
  return item.type === 'tool_result' || (item.type === 'message' && item.role !== 'assistant');
}

/** Changed instructions, as a model reads them after the earlier ones. */
export function changedInstructions(instructions: string): string {
  if (instructions === '') return 'Your earlier instructions no longer apply.';
  return `From here on, these instructions apply instead of the earlier ones:\n\n${instructions}`;
}

/** The result of a call that has none in the transcript: providers refuse a call without one. */
export function missingResult(callId: string): ToolResultItem {
  return { type: 'tool_result', callId, output: 'The result of this call is not known.', isError: true };
}
