import { expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { answering, jsonReply, message, text } from '../../support/adapters/anthropic-exchange.ts';
import { calling, request, result } from '../../support/adapters/requests.ts';

/* Fixtures are in the documented form: https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages */

const look = { name: 'look', description: 'Looks.', inputSchema: { type: 'object', properties: {} } };
const model = (name: string) => anthropic({ model: name, apiKey: 'k' });

async function messagesOf(transcript: readonly Item[]): Promise<JsonObject[]> {
  const { adapter, sent } = answering([jsonReply(message([text('ok')]))], { model: 'claude-opus-5-5' });
  await adapter.generate(request(JSON.parse(JSON.stringify(transcript))), calling());
  return sent[0]?.messages as JsonObject[];
}

test('changed instructions and tools are a system message in their place', async () => {
  const change = { instructions: 'Be loud.', added: [look], restored: ['read'], removed: ['pay'] };
  const [setup] = model('claude-opus-5-5').append?.(change, []) ?? [];
  const call: Item = { type: 'tool_call', callId: 'c1', name: 'read', arguments: '{}' };
  const messages = await messagesOf([
    userMessage('go'),
    call,
    result('c1', 'ok'),
    setup as Item,
    { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'Done.' }] },
    userMessage('more'),
  ]);
  expect(messages.map(({ role }) => role)).toEqual([
    'user',
    'assistant',
    'user',
    'system',
    'assistant',
    'user',
  ]);
  expect(messages[3]?.content).toEqual([
    { type: 'text', text: expect.stringContaining('Be loud.') },
    {
      type: 'tool_addition',
      tool: {
        type: 'tool_definition',
        definition: { name: 'look', description: 'Looks.', input_schema: look.inputSchema },
      },
    },
    { type: 'tool_addition', tool: { type: 'tool_reference', name: 'read' } },
    { type: 'tool_removal', tool: { type: 'tool_reference', name: 'pay' } },
  ]);
});

test('models without such messages append nothing, and Sonnet 5 no tools', () => {
  expect(model('claude-sonnet-4-5').append?.({ instructions: 'x' }, [])).toBeUndefined();
  expect(model('claude-opus-4-8').append?.({ added: [look] }, [])).toHaveLength(1);
  expect(model('claude-opus-5-5').capabilities.bindsReasoning).toBe(true);
  expect(model('claude-sonnet-4-5').capabilities.bindsReasoning).toBe(false);
});
