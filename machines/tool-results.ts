import type { ToolResult } from '../protocol/finisher.ts';
import type { Item, ToolResultItem } from '../protocol/item.ts';
import { isTooDeep, type JsonValue, omitUndefined } from '../protocol/json.ts';
import { findCall } from './calls.ts';
import type { CallResult, Context } from './context.ts';

/** Returns the results of all rounds in the transcript, in its order, for citations and other post-processing. */
export function toolResults(context: {
  transcript: readonly Item[];
  edits: Readonly<Context['edits']>;
}): ToolResult[] {
  const edits = new Map(context.edits.map(({ callId, input }) => [callId, input]));
  const called = new Map<string, { name: string; input: JsonValue }>();
  const results: ToolResult[] = [];
  for (const item of context.transcript) {
    if (item.type === 'tool_call') {
      const input = edits.get(item.callId) ?? parseInput(item.arguments);
      called.set(item.callId, { name: item.name, input });
    }
    if (item.type !== 'tool_result') continue;
    const call = called.get(item.callId);
    if (call === undefined) continue;
    const { callId, output, isError, blob } = item;
    results.push({ callId, ...call, output, isError, ...omitUndefined({ blob }) });
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
