import type { Item, ProviderItem } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import type { ResponseWriter } from './response-writer.ts';
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

/** Writes a call that the provider ran, with the events of its kind. */
export function writeProviderItem(writer: ResponseWriter, item: ProviderItem, id: string): void {
  const closed = providerItem(item, id) ?? { id, type: item.kind };
  const isCode = item.kind === 'code_interpreter_call';
  const opened = { ...closed, status: 'in_progress', ...(isCode ? { code: '', outputs: null } : {}) };
  const index = writer.open('results' in closed ? { ...opened, results: null } : opened);
  const place = { item_id: id, output_index: index };
  writer.write(`response.${item.kind}.in_progress`, place);
  if (isCode && typeof closed.code === 'string') {
    const { code } = closed;
    if (code !== '') writer.write(`response.${item.kind}_code.delta`, { ...place, delta: code });
    writer.write(`response.${item.kind}_code.done`, { ...place, code });
  }
  writer.write(`response.${item.kind}.${KINDS[item.kind]?.working}`, place);
  if (closed.status === 'completed') writer.write(`response.${item.kind}.completed`, place);
  writer.close(index, closed);
}

function wireOf({ opaque: { data } }: ProviderItem): JsonObject | undefined {
  return isJsonObject(data) && isJsonObject(data.item) ? data.item : undefined;
}
