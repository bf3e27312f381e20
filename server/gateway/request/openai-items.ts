import { callKindOf, callTypeAnsweredBy, KEPT_KINDS } from '../../../adapters/responses/item-kinds.ts';
import { nonEmpty, objectOf, objectsOf, textIn } from '../../../adapters/turn/json-access.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { OPENAI } from './gateway-request.ts';
import { isFunctionElsewhere } from './own-functions.ts';

/** Items that only OpenAI's API has, for other models. */

/** Whether the item is carried out here for models that do not read it, or is a call of a tool that they have as a function. */
export function isForAll(item: JsonObject): boolean {
  switch (item.type) {
    case 'additional_tools':
    case 'compaction_trigger':
    case 'agent_message':
      return true;
    case 'configuration_update':
      return Object.keys(objectOf(item.text)).length === 0;
    case 'tool_search_call':
    case 'tool_search_output':
      return item.execution === 'client';
    case 'shell_call':
      return callKindOf('shell_call')?.atProvider?.(item) !== true;
    default: {
      const tool = callKindOf(callTypeAnsweredBy(item.type) ?? item.type)?.tool;
      return tool !== undefined && isFunctionElsewhere(tool);
    }
  }
}

/** Those that clients append to the conversation, as they wrote them. */
export function clientItemsIn(items: readonly Item[]): JsonObject[] {
  return items.flatMap(item =>
    item.type === 'provider_item' && KEPT_KINDS[item.kind]?.by === 'client'
      ? [objectOf(objectOf(item.opaque.data).item)]
      : [],
  );
}

/** What one agent of the client says to another. */
export function isAgentMessage(item: Item): boolean {
  return item.type === 'provider_item' && item.kind === 'agent_message';
}

/** The items as a model of the provider reads them: the words of another agent are a message elsewhere. */
export function readableFor(provider: string, items: readonly Item[]): Item[] {
  if (provider === OPENAI) return [...items];
  return items.map(item => {
    const [told] = clientItemsIn([item]);
    if (told === undefined || !isAgentMessage(item)) return item;
    // OpenAI's API encrypts the words of its models. Those of others are as they wrote them.
    const texts = objectsOf(told.content).map(({ text, encrypted_content: written }) =>
      textIn(text ?? written),
    );
    const id = item.id === undefined ? {} : { id: item.id };
    return { ...id, ...userMessage(texts.join('')) };
  });
}

/** The effort that the last of the updates sets. */
export function effortAfter(items: readonly Item[]): string | undefined {
  return clientItemsIn(items)
    .map(({ type, reasoning }) => type === 'configuration_update' && nonEmpty(objectOf(reasoning).effort))
    .findLast(effort => typeof effort === 'string');
}
