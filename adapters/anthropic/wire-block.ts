import { hashText } from '../../protocol/content/hash-text.ts';
import type { Opaque } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';

/** The provider name of the adapter and of its opaque data. */
export const PROVIDER = 'anthropic';

/** Returns the opaque data of an item: its original content block, unchanged. */
export function keepBlock(block: JsonObject): Opaque {
  return { provider: PROVIDER, data: { block } };
}

/** Returns the original block of an item; `undefined` for items of other providers. */
export function keptBlock(opaque: Opaque | undefined): JsonObject | undefined {
  if (opaque?.provider !== PROVIDER || !isJsonObject(opaque.data)) return undefined;
  return isJsonObject(opaque.data.block) ? opaque.data.block : undefined;
}

/** Returns the call id if the API accepts it (`^[a-zA-Z0-9_-]+$`), else an id derived from it. */
export function legalCallId(callId: string): string {
  if (/^[a-zA-Z0-9_-]+$/.test(callId)) return callId;
  const digest = hashText(callId).slice(0, 16);
  return `${callId.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 40)}_${digest}`;
}

/** Returns the tool's name in the form that the API accepts in a `tool_use`. */
export function legalName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 128) || 'unknown';
}
