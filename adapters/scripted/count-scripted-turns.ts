import type { Item } from '../../protocol/item.ts';
import { integerIn, objectOf } from '../turn/json-access.ts';

/**
 * Returns the number of model turns in the transcript. Items of a scripted turn have its number, which is
 * exact even if the transcript was trimmed. Otherwise a turn is a maximal sequence of model items (assistant
 * messages, reasoning, tool calls, provider items): results and other messages end it, control items do not.
 * Two adjacent turns of another provider count as one.
 */
export function countTurns(transcript: readonly Item[], provider: string): number {
  let count = 0;
  let inTurn = false;
  for (const item of transcript) {
    switch (item.type) {
      case 'approval_request':
      case 'approval_response':
      case 'tool_list':
        break;
      case 'tool_result':
        inTurn = false;
        break;
      case 'message':
        if (item.role !== 'assistant') {
          inTurn = false;
          break;
        }
        count = countItem(item, count, inTurn, provider);
        inTurn = true;
        break;
      default:
        count = countItem(item, count, inTurn, provider);
        inTurn = true;
    }
  }
  return count;
}

type ModelItem = Extract<Item, { opaque?: unknown }>;

function countItem(item: ModelItem, count: number, inTurn: boolean, provider: string): number {
  if (item.opaque?.provider === provider) {
    const turn = integerIn(objectOf(item.opaque.data).turn);
    if (turn !== undefined) return Math.max(count, turn + 1);
  }
  return inTurn ? count : count + 1;
}
