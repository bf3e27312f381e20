import * as z from 'zod';
import { withoutFollower } from '../../../adapters/responses/input.ts';
import { ENGINE } from '../../../machines/compaction.ts';
import { type Item, itemSchema, type ReasoningItem, type ToolCallItem } from '../../../protocol/item.ts';
import { isTooDeep } from '../../../protocol/json.ts';

/** Items as `encrypted_content`, for clients that keep the history themselves: encoded, not encrypted. */

const REASONING = 'agentchart.';
const SUMMARY = 'agentchart.summary.';
const sealedItems = z.array(itemSchema);

export function sealReasoning(items: readonly Item[]): string {
  return seal(
    REASONING,
    items.map(item => (item.type === 'reasoning' ? withoutFollower(item) : item)),
  );
}

/**
 * The reasoning, and the calls of its turn that have its proof. `undefined` for anything that `sealReasoning` did not make,
 * or nested too deep: clients can forge it.
 */
export function openReasoning(
  content: unknown,
): { items: ReasoningItem[]; calls: ToolCallItem[] } | undefined {
  const sealed = open(REASONING, content);
  if (sealed === undefined) return undefined;
  const items = sealed.filter(item => item.type === 'reasoning');
  const calls = sealed.filter(isSignedCall);
  return items.length + calls.length === sealed.length ? { items, calls } : undefined;
}

/** Providers that sign calls instead of reasoning: https://ai.google.dev/gemini-api/docs/thought-signatures */
const SIGN_CALLS: readonly string[] = ['gemini', 'gemini-interactions'];

export function isSignedCall(item: Item): item is ToolCallItem {
  return item.type === 'tool_call' && item.opaque !== undefined && SIGN_CALLS.includes(item.opaque.provider);
}

/** What a compaction left of a conversation that is not stored, without the ledger, which a client could forge. */
export function sealSummary(items: readonly Item[]): string {
  return seal(SUMMARY, items.filter(isSummary));
}

/** `null` for a damaged one, and `undefined` for other content. */
export function openSummary(content: string): Item[] | null | undefined {
  if (!content.startsWith(SUMMARY)) return undefined;
  const items = open(SUMMARY, content);
  return items?.length && items.every(isSummary) ? items : null;
}

/** The words of a user, or what the provider has made of them. */
function isSummary(item: Item): boolean {
  if (item.type === 'provider_item') return item.kind === 'compaction' && item.opaque.provider !== ENGINE;
  return item.type === 'message' && item.role === 'user' && item.opaque === undefined;
}

function seal(prefix: string, items: readonly Item[]): string {
  const kept = items.map(({ id: _, ...item }) => item);
  return prefix + Buffer.from(JSON.stringify(kept)).toString('base64url');
}

function open(prefix: string, content: unknown): Item[] | undefined {
  if (typeof content !== 'string' || !content.startsWith(prefix)) return undefined;
  try {
    const text = Buffer.from(content.slice(prefix.length), 'base64url').toString('utf8');
    return isTooDeep(text) ? undefined : sealedItems.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
