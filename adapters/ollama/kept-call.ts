import type { Opaque, ToolCallItem } from '../../protocol/item.ts';
import { nonEmpty, objectOf } from '../turn/json-access.ts';

const PROVIDER = 'ollama';

/** What a call keeps where the server gave it an id; most servers give none, and take none back. */
export function keptCall(wireId: string): Opaque {
  return { provider: PROVIDER, data: { wireId } };
}

/** Whether the server knows calls by ids, so that call and result carry one. */
export function hasId({ opaque }: ToolCallItem): boolean {
  return opaque?.provider === PROVIDER && nonEmpty(objectOf(opaque.data).wireId) !== undefined;
}
