import type { Item, MessageItem, ProviderItem } from '../../../protocol/item.ts';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { GatewayRequest } from './gateway-request.ts';

/**
 * Compaction items. Those of this server name the run that wrote the summary, which stays in the store: clients can
 * neither read nor change it, and it may quote tools they must not know about. In a transcript such an item is a message
 * with the summary. Those of OpenAI's API go back to it unchanged.
 */

/** No adapter has this name. */
const OURS = 'agentchart';

const PREFIX = 'agentchart.compaction.';

const UPSTREAM = 'openai-responses';

export function compactionItem(runId: string): JsonObject {
  const key = runId.replace(/^run_/, '');
  return { id: `cmp_${key}`, type: 'compaction', encrypted_content: PREFIX + key };
}

export function runOfCompaction(content: string): string | undefined {
  if (!content.startsWith(PREFIX)) return undefined;
  const [key = ''] = /^[A-Za-z0-9]+$/.exec(content.slice(PREFIX.length)) ?? [];
  return `run_${key}`;
}

export function summaryMessage(runId: string, summary: string): MessageItem {
  const text = `This is a summary of the conversation up to here. It replaces everything that is not repeated:\n\n${summary}`;
  return {
    type: 'message',
    role: 'user',
    content: [{ type: 'text', text }],
    opaque: { provider: OURS, data: { compaction: runId } },
  };
}

export function upstreamCompaction(item: JsonObject): ProviderItem {
  return { type: 'provider_item', kind: 'compaction', opaque: { provider: UPSTREAM, data: { item } } };
}

/** The compaction item that a transcript item stands for; `undefined` for other items. */
export function compactionOf(item: Item): JsonObject | undefined {
  const data = 'opaque' in item ? item.opaque?.data : undefined;
  if (!isJsonObject(data)) return undefined;
  if (item.type === 'message' && item.opaque?.provider === OURS)
    return typeof data.compaction === 'string' ? compactionItem(data.compaction) : undefined;
  return isUpstreamCompaction(item) && isJsonObject(data.item) ? data.item : undefined;
}

export function isUpstreamCompaction(item: Item): boolean {
  return item.type === 'provider_item' && item.kind === 'compaction' && item.opaque.provider === UPSTREAM;
}

/** Whether it reads its own compaction items and takes `context_management`. */
export function compactsContext(provider: string): boolean {
  return provider === UPSTREAM;
}

const PROMPT = `Write a summary of the conversation above, for a model that continues it without seeing it. Keep everything it needs: what the user wants and has decided, facts, names, numbers, ids and quotes that matter, which tools were called and their outcomes, what is done and what is still open. Leave out details that are no longer needed. Do not continue the conversation and do not address the user. Write only the summary.`;

export function summaryRequest({ previousResponseId: _, ...asked }: GatewayRequest): GatewayRequest {
  return { ...asked, input: [], toolChoice: 'none' };
}

export function summaryTranscript(conversation: readonly Item[]): Item[] {
  return [...conversation, userMessage(PROMPT)];
}
