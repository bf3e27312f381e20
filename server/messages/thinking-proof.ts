/**
 * The content of the `signature` of a thinking block, and of the `data` of a redacted one: the id of the reasoning item,
 * and after a point the sealed reasoning itself, if it was complete when the block ended. The next request restores the
 * reasoning from the seal, or else from the stored run.
 */
import type { JsonObject } from '../../protocol/json.ts';
import { openSeal, sealOpaque } from '../responses/wire/opaque-seal.ts';
import { type ItemPlace, readItemId } from '../responses/wire/wire-ids.ts';

/** The proof for a reasoning item of a response, and for the sealed reasoning if it is known. */
export function proofOf({ id, seal }: { id: string; seal?: string | undefined }): string {
  return seal === undefined ? id : `${id}.${seal}`;
}

/** Restores the reasoning item of a block, with the place of its turn. There is no item for unsigned thinking. */
export function readThinking(block: JsonObject): { item?: JsonObject; place?: ItemPlace } {
  const text = typeof block.thinking === 'string' ? block.thinking : '';
  const proof = String(block.type === 'thinking' ? block.signature : block.data);
  const [, id = '', sealed] = /^(rs_\w+)(?:\.(.+))?$/.exec(proof) ?? [];
  const place = readItemId(id);
  if (place === undefined) return proof.trim() === '' ? {} : { item: foreign(block, text) };
  const summary = text === '' ? [] : [{ type: 'summary_text', text }];
  const isSealed = openSeal(sealed) !== undefined;
  return {
    place,
    item: { type: 'reasoning', id, summary, ...(isSealed ? { encrypted_content: sealed ?? '' } : {}) },
  };
}

/** A block that Anthropic's own API has made, which goes back to it unchanged. */
function foreign({ cache_control: _, ...block }: JsonObject, text: string): JsonObject {
  const opaque = { provider: 'anthropic', data: { block } };
  return {
    type: 'reasoning',
    summary: [],
    encrypted_content: sealOpaque([{ type: 'reasoning', text, opaque }]),
  };
}
