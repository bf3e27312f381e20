import type { Item, ProviderItem } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import type { ItemKind } from './wire-ids.ts';

const KINDS: Readonly<Record<string, { prefix: ItemKind; working: string }>> = {
  web_search_call: { prefix: 'ws', working: 'searching' },
  file_search_call: { prefix: 'fs', working: 'searching' },
  code_interpreter_call: { prefix: 'ci', working: 'interpreting' },
};

/** The id prefix of a call that the provider ran; `undefined` for items that clients do not see. */
export function prefixOf(item: Item): ItemKind | undefined {
  return item.type === 'provider_item' && wireOf(item) !== undefined ? KINDS[item.kind]?.prefix : undefined;
}

/** A call that the provider ran, as an item. `undefined` for items that clients do not see. */
export function providerItem(item: ProviderItem, id: string): JsonObject | undefined {
  const wire = wireOf(item);
  return wire && KINDS[item.kind] && { ...wire, id };
}

/** The last part of the name of the event that says what the provider does in a call. */
export function workingOn(item: ProviderItem): string {
  return KINDS[item.kind]?.working ?? 'in_progress';
}

function wireOf({ opaque: { data } }: ProviderItem): JsonObject | undefined {
  return isJsonObject(data) && isJsonObject(data.item) ? data.item : undefined;
}
