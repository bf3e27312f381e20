import { createHash } from 'node:crypto';
import type { Opaque } from '../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';

/** The name under which opaque data is kept, and of the adapter. */
export const PROVIDER = 'anthropic';

/** What an item keeps: the content block it came from, unchanged. */
export function keepBlock(block: JsonObject): Opaque {
  return { provider: PROVIDER, data: { block } };
}

/** The block an item came from; `undefined` for items of other providers. */
export function keptBlock(opaque: Opaque | undefined): JsonObject | undefined {
  if (opaque?.provider !== PROVIDER || !isJsonObject(opaque.data)) return undefined;
  return isJsonObject(opaque.data.block) ? opaque.data.block : undefined;
}

/** The call's id if the API takes it (`^[a-zA-Z0-9_-]+$`), else one that follows from it alone. */
export function legalCallId(callId: string): string {
  if (/^[a-zA-Z0-9_-]+$/.test(callId)) return callId;
  const digest = createHash('sha256').update(callId).digest('hex').slice(0, 16);
  return `${callId.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 40)}_${digest}`;
}

/** The tool's name as a `tool_use` may have it. */
export function legalName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 128) || 'unknown';
}
