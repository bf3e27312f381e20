import type { Opaque, ToolCallItem } from '../../protocol/item.ts';
import { nonEmpty, objectOf } from '../turn/json-access.ts';

const PROVIDER = 'ollama';

/** Returns the opaque data of a call with a server id. Most servers send no ids and accept none. */
export function keptCall(wireId: string): Opaque {
  return { provider: PROVIDER, data: { wireId } };
}

/** Whether the server gave the call an id, so that call and result are sent with it. */
export function hasId({ opaque }: ToolCallItem): boolean {
  return opaque?.provider === PROVIDER && nonEmpty(objectOf(opaque.data).wireId) !== undefined;
}
