import type { Context } from '../machines/context.ts';
import type { Item } from '../protocol/item.ts';
import { isTooDeep, type JsonValue } from '../protocol/json.ts';
import type { ToolResult } from './definition.ts';

/** The results of all rounds so far, in transcript order: what citations and other post-processing work from. */
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
    results.push({ callId: item.callId, ...call, output: item.output, isError: item.isError });
  }
  return results;
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
