import { expect, test } from 'vitest';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import { setupItems } from '../../../adapters/responses/request.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ToolDefinition } from '../../../protocol/turn.ts';
import { request, result } from '../../support/adapters/requests.ts';
import { body, call, DIALECT } from '../../support/adapters/wire/responses-request.ts';

const tool = (name: string): ToolDefinition => ({
  name,
  description: name,
  inputSchema: { type: 'object', properties: {} },
});
const tools = [tool('get_weather'), tool('pay')];

test('changed instructions and added tools are input items in their place', () => {
  const setup = setupItems({ instructions: 'Be loud.', added: [tool('look')] }, DIALECT, []);
  const { input, tool_choice } = body({
    ...request([userMessage('go'), call('c1'), result('c1', 'ok'), ...setup]),
    tools,
  });
  expect(input).toMatchObject([
    { role: 'user' },
    { type: 'function_call', call_id: 'c1' },
    { type: 'function_call_output', call_id: 'c1' },
    { role: 'developer', content: expect.stringContaining('Be loud.') },
    { type: 'additional_tools', role: 'developer', tools: [{ type: 'function', name: 'look' }] },
  ]);
  expect(tool_choice).toBe('auto');
});

test('a tool that is off stays declared, and the choice leaves it out until it is on again', () => {
  const off = setupItems({ added: [tool('look')], removed: ['pay'] }, DIALECT, []);
  const on = setupItems({ restored: ['pay'] }, DIALECT, []);
  const sent = body({ ...request([userMessage('go'), ...off]), tools });
  expect(sent.tools).toMatchObject([{ name: 'get_weather' }, { name: 'pay' }]);
  expect(sent.tool_choice).toEqual({
    type: 'allowed_tools',
    mode: 'auto',
    tools: [
      { type: 'function', name: 'get_weather' },
      { type: 'function', name: 'look' },
    ],
  });
  expect(body({ ...request([userMessage('go'), ...off, ...on]), tools }).tool_choice).toBe('auto');
});

test('what was appended after a stored turn is sent with the results of that turn', () => {
  const setup = setupItems({ added: [tool('look')] }, DIALECT, []);
  const transcript = [userMessage('go'), call('c1'), result('c1', 'ok'), ...setup];
  const { input } = body({ ...request(transcript), tools, continuation: 'resp_1' });
  expect(input).toMatchObject([{ type: 'function_call_output' }, { type: 'additional_tools' }]);
});

test('only models that read them there get appended tools', () => {
  const model = (name: string) => openaiResponses({ model: name, apiKey: 'k' });
  expect(model('gpt-6.1-sol').append).toBeDefined();
  expect(model('gpt-4o').append).toBeUndefined();
  expect(model('gpt-6.1-sol').capabilities.bindsReasoning).toBe(true);
  expect(model('gpt-5').capabilities.bindsReasoning).toBe(false);
});

test('a tool that an item of the client declares is not declared again', () => {
  const item = { type: 'additional_tools', role: 'developer', tools: [{ type: 'function', name: 'look' }] };
  const opaque = { provider: DIALECT.provider, data: { item } };
  const declaring = { type: 'provider_item' as const, kind: 'additional_tools', opaque };
  expect(setupItems({ added: [tool('look')] }, DIALECT, [userMessage('go'), declaring])).toEqual([]);
  expect(setupItems({ added: [tool('look'), tool('more')] }, DIALECT, [declaring])).toMatchObject([
    { opaque: { data: { item: { tools: [{ name: 'more' }] } } } },
  ]);
});
