import type { Item } from '../../protocol/item.ts';
import { integerIn, objectOf } from '../turn/json-access.ts';

/**
 * How many model turns the transcript holds. Items of a scripted turn carry its number, which is exact
 * also where the transcript was trimmed. Without numbers, a turn is a longest run of model-made items
 * (assistant messages, reasoning, tool calls, provider items): results and other messages end it,
 * control items do not. Two turns of another provider with nothing between them count as one.
 */
export function countTurns(transcript: readonly Item[], provider: string): number {
  let count = 0;
  let within = false;
  for (const item of transcript) {
    switch (item.type) {
      case 'approval_request':
      case 'approval_response':
      case 'tool_list':
        break;
      case 'tool_result':
        within = false;
        break;
      case 'message':
        if (item.role !== 'assistant') {
          within = false;
          break;
        }
        count = countItem(item, count, within, provider);
        within = true;
        break;
      default:
        count = countItem(item, count, within, provider);
        within = true;
    }
  }
  return count;
}

type ModelItem = Extract<Item, { opaque?: unknown }>;

function countItem(item: ModelItem, count: number, within: boolean, provider: string): number {
  if (item.opaque?.provider === provider) {
    const turn = integerIn(objectOf(item.opaque.data).turn);
    if (turn !== undefined) return Math.max(count, turn + 1);
  }
  return within ? count : count + 1;
}
