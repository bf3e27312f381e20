import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest, TurnDelta } from '../../../protocol/turn.ts';

/** A request with a transcript only, and optional overrides. */
export function request(
  transcript: readonly Item[] | string,
  more: Partial<ModelRequest> = {},
): ModelRequest {
  return {
    transcript: typeof transcript === 'string' ? [userMessage(transcript)] : transcript,
    tools: [],
    toolChoice: 'auto',
    settings: {},
    ...more,
  };
}

export function calling(): { signal: AbortSignal } {
  return { signal: new AbortController().signal };
}

export async function collect<Value>(values: AsyncIterable<Value>): Promise<Value[]> {
  const all: Value[] = [];
  for await (const value of values) all.push(value);
  return all;
}

export function result(callId: string, output: string, isError = false): Item {
  return { type: 'tool_result', callId, output, isError };
}

/** The sum of the deltas of a stream. */
export function sumOf(deltas: readonly TurnDelta[]): { text: string; reasoning: string; calls: string[][] } {
  const sum = { text: '', reasoning: '', calls: [] as string[][] };
  for (const delta of deltas) {
    if (delta.type === 'text') sum.text += delta.text;
    else if (delta.type === 'reasoning') sum.reasoning += delta.text;
    else if (delta.type === 'call_started') sum.calls[delta.index] = [delta.name, ''];
    else if (delta.type === 'call_arguments') {
      const call = sum.calls[delta.index] ?? ['', ''];
      sum.calls[delta.index] = [call[0] ?? '', (call[1] ?? '') + delta.text];
    }
  }
  return sum;
}

export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('Expected a rejection, but the promise was fulfilled.');
}
