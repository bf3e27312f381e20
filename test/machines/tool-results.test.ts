import { expect, test } from 'vitest';
import { toolResults } from '../../machines/tool-results.ts';
import type { Item } from '../../protocol/item.ts';

const call = (callId: string, text: string): Item => ({
  type: 'tool_call',
  callId,
  name: 'look',
  arguments: text,
});
const result = (callId: string): Item => ({ type: 'tool_result', callId, output: 'seen', isError: false });

test('each result comes with the name and the input of its call, as it was edited', () => {
  const transcript = [
    ...[call('a', '{"n":1}'), call('b', '{"n":2}'), call('c', ''), call('d', 'no JSON')],
    ...['a', 'b', 'c', 'd', 'of an earlier run'].map(result),
  ];
  const results = toolResults({ transcript, edits: [{ callId: 'b', input: { n: 3 } }] });
  const rest = { name: 'look', output: 'seen', isError: false };
  expect(results).toEqual([
    { callId: 'a', input: { n: 1 }, ...rest },
    { callId: 'b', input: { n: 3 }, ...rest },
    { callId: 'c', input: {}, ...rest },
    { callId: 'd', input: 'no JSON', ...rest },
  ]);
});
