import { ENGINE } from '../../../machines/compaction.ts';
import type { Item, ProviderItem } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import { invalid } from '../../openai-error.ts';
import { itemIdOf } from '../answer/wire-ids.ts';
import { type GatewayRequest, OPENAI } from './gateway-request.ts';

/**
 * Compaction items. Those of this server name a compaction in the journal of a run, which has the summary and the ledger:
 * clients can neither read nor forge them, and they may quote tools that clients must not know about. Where nothing is
 * stored, they are the summary itself (`sealed-items.ts`). Those of OpenAI's API go back to it unchanged.
 */

/** The compaction of a run with this number, from 1. */
export type CompactionPlace = { runId: string; count: number };

const PREFIX = 'agentchart.compaction.';

export function compactionItem({ runId, count }: CompactionPlace) {
  const key = runId.replace(/^run_/, '');
  return {
    id: itemIdOf({ kind: 'cmp', runId, turn: 0, place: count }),
    type: 'compaction',
    encrypted_content: `${PREFIX}${key}.${count}`,
  } as const;
}

/** `undefined` for the content of another server's item, `null` for a damaged one of this server. */
export function readCompactionPlace(content: string): CompactionPlace | null | undefined {
  if (!content.startsWith(PREFIX)) return undefined;
  const [, key, count] = /^([A-Za-z0-9]+)\.([1-9]\d{0,5})$/.exec(content.slice(PREFIX.length)) ?? [];
  return key === undefined ? null : { runId: `run_${key}`, count: Number(count) };
}

/** The item, which from now on also says that it is the summary of this compaction. */
export function markSummary(item: Item, place: CompactionPlace): Item {
  if (item.type !== 'message' || item.opaque !== undefined) return item;
  const data = { compaction: compactionItem(place).encrypted_content };
  return { ...item, opaque: { provider: ENGINE, data } };
}

export function upstreamCompaction(item: JsonObject): ProviderItem {
  return { type: 'provider_item', kind: 'compaction', opaque: { provider: OPENAI, data: { item } } };
}

/** The compaction item that a transcript item stands for: `null` for a ledger, which belongs to one; else `undefined`. */
export function compactionOf(item: Item): JsonObject | null | undefined {
  const opaque = 'opaque' in item ? item.opaque : undefined;
  if (item.type === 'message' && opaque?.provider === ENGINE) {
    const content = isJsonObject(opaque.data) ? opaque.data.compaction : undefined;
    const place = typeof content === 'string' ? readCompactionPlace(content) : undefined;
    return place ? compactionItem(place) : null;
  }
  const data = opaque?.data;
  return isUpstreamCompaction(item) && isJsonObject(data) && isJsonObject(data.item) ? data.item : undefined;
}

export function isUpstreamCompaction(item: Item): boolean {
  return item.type === 'provider_item' && item.kind === 'compaction' && item.opaque.provider === OPENAI;
}

/** What a compaction of the provider is for clients: the item of OpenAI's API, or the block of Anthropic's. */
export function providerCompaction(item: Item): JsonObject | undefined {
  if (item.type !== 'provider_item' || item.kind !== 'compaction') return undefined;
  const { provider, data } = item.opaque;
  if (!isJsonObject(data)) return undefined;
  const found = provider === OPENAI ? data.item : data.block;
  return isJsonObject(found) ? found : undefined;
}

/** Whether `POST /v1/responses/compact` returns the item beside the compaction, as it is. */
export function isKeptByCompaction(item: Item): boolean {
  return item.type === 'message' && item.role !== 'assistant' && compactionOf(item) === undefined;
}

/** Whether it reads its own compaction items. */
export function compactsContext(provider: string): boolean {
  return provider === OPENAI;
}

/** From how many tokens on the run of the request is compacted here; `null`: at a part of the model's context window. */
export function thresholdIn({
  store,
  openai: { context_management: entries = [] },
}: Pick<GatewayRequest, 'store' | 'openai'>): number | null | undefined {
  // What is not stored here can only be compacted by the provider, whose item has it all.
  if (store === false || entries.length === 0) return undefined;
  const given = entries.flatMap(({ compact_threshold: at }) => at ?? []);
  return given.length === 0 ? null : Math.min(...given);
}

const TRIGGER = 'compaction_trigger';

/**
 * The request without its last item, which asks for a compaction, for models whose provider does not read that item;
 * `undefined` for other requests. Throws a `ResponsesError` for what such a request cannot have.
 */
export function requestToCompact(request: GatewayRequest): GatewayRequest | undefined {
  const { input, conversation } = request;
  const place = input.findIndex(
    item =>
      item.type === 'sent' && item.items.some(one => one.type === 'provider_item' && one.kind === TRIGGER),
  );
  if (place === -1) return undefined;
  const refused = (param: string, what: string) =>
    invalid(param, 'unsupported_input_item', `For this model, an input item of type "${TRIGGER}" ${what}.`);
  if (place < input.length - 1) throw refused(`input[${place}]`, 'must be the last');
  if (conversation !== undefined) throw refused('conversation', "cannot be sent with a 'conversation'");
  return { ...request, input: input.slice(0, place) };
}
