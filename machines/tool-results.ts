import type { Item, ToolCallItem, ToolResultItem } from '../protocol/item.ts';
import { isTooDeep, type JsonValue } from '../protocol/json.ts';
import type { ToolResult } from '../protocol/tool-result.ts';
import { findCall } from './calls.ts';
import type { CallResult, Context } from './context.ts';

/** Returns the results of all rounds in the transcript, in its order, for citations and other post-processing. */
export function toolResults(context: {
  transcript: readonly Item[];
  edits: Readonly<Context['edits']>;
}): ToolResult[] {
  const edits = new Map(context.edits.map(({ callId, input }) => [callId, input]));
  const called = new Map<string, ToolCallItem>();
  const results: ToolResult[] = [];
  for (const item of context.transcript) {
    if (item.type === 'tool_call') called.set(item.callId, item);
    if (item.type !== 'tool_result') continue;
    const { callId, output, isError, blob } = item;
    const call = called.get(callId);
    if (call === undefined) continue;
    const input = edits.get(callId) ?? parseInput(call.arguments);
    const result = { callId, name: call.name, input, output, isError };
    results.push(blob === undefined ? result : { ...result, blob });
  }
  return results;
}

/** Returns the result of a call, from the current or an earlier round, unless a compaction replaced it. */
export function findResult(context: Context, callId: string): CallResult | undefined {
  const open = findCall(context, callId)?.result;
  const item = context.transcript.findLast(
    (one): one is ToolResultItem => one.type === 'tool_result' && one.callId === callId,
  );
  return open ?? item;
}

function parseInput(text: string): JsonValue {
  if (text === '') return {};
  if (isTooDeep(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
