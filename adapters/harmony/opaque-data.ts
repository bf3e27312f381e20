import type { MessageItem, Opaque, ReasoningItem } from '../../protocol/item.ts';
import { objectOf } from '../turn/json-access.ts';

/** The provider name of the adapter. */
export const PROVIDER = 'harmony';

/** Returns the opaque data of an item that the model wrote on this channel. */
export function keptOn(channel: 'analysis' | 'commentary'): Opaque {
  return { provider: PROVIDER, data: { channel } };
}

/** Whether the reasoning is this provider's own, so that it goes back. */
export function isKept({ opaque }: ReasoningItem): boolean {
  return opaque?.provider === PROVIDER;
}

/** Whether the model wrote the message to announce calls. */
export function isPreamble({ opaque }: MessageItem): boolean {
  return opaque?.provider === PROVIDER && objectOf(opaque.data).channel === 'commentary';
}
