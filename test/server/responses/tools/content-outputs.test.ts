import { expect, test } from 'vitest';
import { content } from '../../../../protocol/content/content.ts';
import type { Item } from '../../../../protocol/item.ts';
import { workIn } from '../../../../server/gateway/plan/client-work.ts';
import { shapeOf } from '../../../../server/responses/response-writer.ts';
import { wireInputs } from '../../../../server/responses/wire-input.ts';

const PNG = 'data:image/png;base64,AAAA';
const output = content(['Here:', { type: 'image', url: PNG }], { data: { for: 'programs' } });

test('the output of an mcp_call is text, in which a description stands for an image', () => {
  const shape = shapeOf({ label: 'eyes', name: 'look' });
  const call = {
    id: 'mcp_1_1_0',
    runId: 'run_1',
    turn: 1,
    place: 0,
    callId: 'c',
    name: 'look',
    arguments: '{}',
    gate: false,
  };
  const { item } = shape.closed(call, { output }, []);
  expect(item).toMatchObject({
    type: 'mcp_call',
    status: 'completed',
    output: 'Here:\n[image/png image, 1 KiB]',
  });
});

test('the output of a function has the parts of content in the format of the API', () => {
  const [item] = wireInputs([{ type: 'tool_result', callId: 'c', output, isError: false }], {});
  expect(item).toMatchObject({
    type: 'function_call_output',
    output: [
      { type: 'input_text', text: 'Here:' },
      { type: 'input_image', image_url: PNG, detail: 'auto' },
    ],
  });
  expect(JSON.stringify(item)).not.toContain('programs');
});

test('the output of a tool that looks like a receipt is the output of its call', () => {
  const looks = { type: 'tool_result', callId: 'c', output: { status: 'started' }, isError: false } as const;
  const items: Item[] = [{ type: 'tool_call', callId: 'c', name: 'deploy', arguments: '{}' }, looks];
  const [call, result] = wireInputs(items, {});
  expect(call).toMatchObject({ type: 'function_call', call_id: 'c' });
  expect(call).not.toHaveProperty('async');
  expect(result).toMatchObject({ type: 'function_call_output', output: '{"status":"started"}' });
  expect(workIn(items, () => undefined).get('c')).toBeUndefined();
  const [work, ...others] = wireInputs([items[0] as Item, { ...looks, receipt: 'client' }], {});
  expect(work).toMatchObject({ call_id: 'c', async: true });
  expect(others).toEqual([]);
});
