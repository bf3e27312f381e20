/**
 * The `signature` of a thinking block, and the `data` of a redacted one: the id of the reasoning item, and after a point
 * the sealed reasoning, if it was complete when the block ended. The next request restores the reasoning from the seal,
 * or else from the stored run.
 */
import type { JsonObject } from '../../protocol/json.ts';
import { type ItemPlace, readItemId } from '../gateway/answer/wire-ids.ts';
import { type SentItem, sent } from '../gateway/request/gateway-request.ts';
import { openReasoning } from '../gateway/request/sealed-items.ts';

export function proofOf({ id, seal }: { id: string; seal?: string | undefined }): string {
  return seal === undefined ? id : `${id}.${seal}`;
}

/** Restores the reasoning of a block, with the place of its turn. There is no item for unsigned thinking. */
export function readThinking(
  block: JsonObject,
  proof: string,
  text: string,
): { item?: SentItem; place?: ItemPlace } {
  const [, id = '', sealed] = /^(rs_\w+)(?:\.(.+))?$/.exec(proof) ?? [];
  const place = readItemId(id);
  const items = openReasoning(sealed)?.items ?? [{ id, type: 'reasoning' as const, text }];
  if (place !== undefined) return { place, item: { id, ...sent(...items) } };
  if (proof.trim() === '') return {};
  // A block that Anthropic's own API has made, which goes back to it unchanged.
  const { cache_control: _, ...kept } = block;
  const opaque = { provider: 'anthropic', data: { block: kept } };
  return { item: sent({ type: 'reasoning', text, opaque }) };
}
