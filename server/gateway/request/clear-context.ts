/** What a request asks to be cleared from its context, as Anthropic's API does it, for models of other providers. */
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { estimateRequest } from '../../../text/estimate-usage.ts';

/** The transcript stays as it is: each model call clears its own request. Token counts are estimates. */
export type Clearing =
  /** The reasoning before the last `keep` messages of the user. */
  | { type: 'thinking'; keep: number }
  /** The oldest results of calls, if there are more than `above`; and the inputs of all calls, or of those named. */
  | {
      type: 'tool_uses';
      above: { tokens: number } | { uses: number };
      keep: number;
      atLeastTokens: number;
      inputs: boolean | string[];
      except: string[];
    };

type Cleared = { transcript: readonly Item[]; edit: JsonObject };

/** The request without what is cleared, and what that was, in the form of Anthropic's `applied_edits`. */
export function clearContext(
  request: ModelRequest,
  clearings: readonly Clearing[],
): { request: ModelRequest; appliedEdits: JsonObject[] } {
  let { transcript } = request;
  const appliedEdits: JsonObject[] = [];
  for (const clearing of clearings) {
    const asked = { ...request, transcript };
    const cleared =
      clearing.type === 'thinking' ? clearThinking(asked, clearing) : clearUses(asked, clearing);
    if (cleared === undefined) continue;
    transcript = cleared.transcript;
    appliedEdits.push(cleared.edit);
  }
  return appliedEdits.length === 0
    ? { request, appliedEdits }
    : { request: { ...request, transcript }, appliedEdits };
}

function clearThinking(
  { transcript }: ModelRequest,
  { keep }: Extract<Clearing, { type: 'thinking' }>,
): Cleared | undefined {
  const messages = transcript.flatMap((item, at) => (isFromUser(item) ? [at] : []));
  const end = messages.at(-keep) ?? 0;
  const kept = transcript.filter((item, at) => at >= end || item.type !== 'reasoning');
  if (kept.length === transcript.length) return undefined;
  const turns = messages.filter((from, index) => {
    const to = messages[index + 1] ?? transcript.length;
    return from < end && transcript.slice(from, to).some(({ type }) => type === 'reasoning');
  });
  const cleared_input_tokens = tokensOf(transcript) - tokensOf(kept);
  const edit = {
    type: 'clear_thinking_20251015',
    cleared_thinking_turns: turns.length,
    cleared_input_tokens,
  };
  return { transcript: kept, edit };
}

function clearUses(
  request: ModelRequest,
  { above, keep, atLeastTokens, inputs, except }: Extract<Clearing, { type: 'tool_uses' }>,
): Cleared | undefined {
  const { transcript } = request;
  const names = new Map(
    transcript.flatMap(item => (item.type === 'tool_call' ? [[item.callId, item.name] as const] : [])),
  );
  const isReached = 'uses' in above ? names.size > above.uses : estimateRequest(request) > above.tokens;
  if (!isReached) return undefined;
  const used = transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : []));
  const old = used.slice(0, Math.max(0, used.length - keep));
  const cleared = new Set(old.filter(callId => !except.includes(names.get(callId) ?? '')));
  if (cleared.size === 0) return undefined;
  const kept = transcript.map((item): Item => {
    if (!('callId' in item) || !cleared.has(item.callId)) return item;
    if (item.type === 'tool_result') {
      const { shown: _, blob: __, ...result } = item;
      return { ...result, output: CLEARED };
    }
    const clearsInput = typeof inputs === 'boolean' ? inputs : inputs.includes(names.get(item.callId) ?? '');
    return item.type === 'tool_call' && clearsInput ? { ...item, arguments: '{}' } : item;
  });
  const cleared_input_tokens = tokensOf(transcript) - tokensOf(kept);
  if (cleared_input_tokens < atLeastTokens) return undefined;
  const edit = { type: 'clear_tool_uses_20250919', cleared_tool_uses: cleared.size, cleared_input_tokens };
  return { transcript: kept, edit };
}

const CLEARED = '[The result of this call was cleared to save context. Call the tool again if you need it.]';

function isFromUser(item: Item): boolean {
  return item.type === 'message' && item.role === 'user';
}

function tokensOf(transcript: readonly Item[]): number {
  return estimateRequest({ transcript, tools: [] });
}
