import { describe, expect, test } from 'vitest';
import { nativeSchema } from '../../../adapters/anthropic/request.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import {
  begun,
  bodyFor,
  delta,
  ended,
  json,
  message,
  started,
  stopped,
  streamFor,
  text,
  toolUse,
  turnFor,
} from '../../support/adapters/anthropic-exchange.ts';
import { request, result } from '../../support/adapters/requests.ts';

const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const output = { name: 'answer', schema };
const tools = [{ name: 'lookup', description: '', inputSchema: { type: 'object' } }];
const NATIVE = { model: 'claude-sonnet-4-5' };
const OLDER = { model: 'claude-sonnet-4-0' };
const ANSWER = toolUse('toolu_a', 'structured_output', { city: 'Rome' });
const asking = (more: Partial<ModelRequest> = {}) => request('hi', { output, ...more });

describe('the schema of the answer', () => {
  test('is the native format of models that have one', async () => {
    const sent = await bodyFor(asking({ settings: { reasoningEffort: 'low' } }), {
      model: 'claude-opus-4-6',
    });
    expect(sent.output_config).toEqual({
      effort: 'low',
      format: { type: 'json_schema', schema: { ...schema, additionalProperties: false } },
    });
    expect(sent).not.toHaveProperty('tools');
  });

  test('is a required tool if the model has no native format', async () => {
    expect(await bodyFor(asking(), OLDER)).toMatchObject({
      tools: [{ name: 'structured_output', input_schema: schema }],
      tool_choice: { type: 'tool', name: 'structured_output', disable_parallel_tool_use: true },
    });
    expect(await bodyFor(asking(), { ...NATIVE, nativeOutput: false })).toMatchObject({
      tool_choice: { type: 'tool', name: 'structured_output' },
    });
  });

  test.each([
    ['auto', {}, { type: 'any' }, ['lookup', 'structured_output']],
    [
      'none',
      {},
      { type: 'tool', name: 'structured_output', disable_parallel_tool_use: true },
      ['lookup', 'structured_output'],
    ],
    ['required', {}, { type: 'any' }, ['lookup']],
    ['auto', { reasoningEffort: 'low' }, { type: 'auto' }, ['lookup', 'structured_output']],
    ['required', { reasoningEffort: 'low' }, { type: 'any' }, ['lookup']],
    ['none', { reasoningEffort: 'low' }, { type: 'none' }, ['lookup']],
  ] as const)(
    'with tools, choice %s and settings %j is requested with %j',
    async (toolChoice, settings, choice, names) => {
      const sent = await bodyFor(asking({ tools, toolChoice, settings }), OLDER);
      expect(sent.tool_choice).toEqual(choice);
      expect((sent.tools as JsonObject[]).map(tool => tool.name)).toEqual(names);
    },
  );

  test('is described in words if tools are off and none can be forced', async () => {
    const sent = await bodyFor(
      asking({ tools, toolChoice: 'none', settings: { reasoningEffort: 'low' } }),
      OLDER,
    );
    expect(sent.system).toContain(JSON.stringify(schema));
  });

  test('is a tool if it has no native form, under a name that no other tool has', async () => {
    const open = { type: 'object', additionalProperties: { type: 'string' } };
    const taken = [{ name: 'structured_output', description: '', inputSchema: { type: 'object' } }];
    const sent = await bodyFor(asking({ tools: taken, output: { name: 'x', schema: open } }), NATIVE);
    expect((sent.tools as JsonObject[]).map(tool => tool.name)).toEqual([
      'structured_output',
      'structured_output_',
    ]);
  });
});

describe('the native form of a schema', () => {
  test('closes objects and describes unsupported keywords in words', () => {
    expect(
      nativeSchema({
        $schema: 'x',
        type: 'object',
        properties: {
          age: { type: 'integer', minimum: 0, maximum: 9, description: 'Years.' },
          tags: { type: 'array', minItems: 2, items: { type: 'string', format: 'uuid', maxLength: 3 } },
          one: { oneOf: [{ type: 'string', format: 'color' }, { type: 'null' }] },
        },
        required: ['age'],
      }),
    ).toEqual({
      type: 'object',
      properties: {
        age: { type: 'integer', description: 'Years.\n\n{minimum: 0, maximum: 9}' },
        tags: {
          type: 'array',
          items: { type: 'string', format: 'uuid', description: '{maxLength: 3}' },
          description: '{minItems: 2}',
        },
        one: { anyOf: [{ type: 'string', description: '{format: "color"}' }, { type: 'null' }] },
      },
      required: ['age'],
      additionalProperties: false,
    });
  });

  test.each([
    [{ type: 'object', additionalProperties: true }],
    [{ type: 'object', properties: { a: { not: {} } } }],
    [{ anyOf: [{ $ref: '#' }] }],
    [{ type: 'array', items: true }],
    [
      {
        $defs: { node: { type: 'object', properties: { next: { $ref: '#/$defs/node' } } } },
        $ref: '#/$defs/node',
      },
    ],
  ])('does not exist for %j', input => {
    expect(nativeSchema(input as JsonObject)).toBeUndefined();
  });
});

describe('an answer that came as a call', () => {
  test('alone is the text of the turn, and no call', async () => {
    const content = [{ type: 'thinking', thinking: 'Hm.', signature: 's' }, text('Here it is.'), ANSWER];
    const turn = await turnFor(message(content, 'tool_use'), asking(), OLDER);
    expect(turn).toMatchObject({
      text: '{"city":"Rome"}',
      reasoning: 'Hm.',
      toolCalls: [],
      finishReason: 'stop',
    });
    expect(turn.items.map(item => item.type)).toEqual(['reasoning', 'provider_item', 'message']);
  });

  test('is sent back as the call that it was, with a result, before the next user message', async () => {
    const content = [text('Here it is.'), ANSWER];
    const { items } = await turnFor(message(content, 'tool_use'), asking(), OLDER);
    const { messages } = await bodyFor(request([userMessage('hi'), ...items, userMessage('more')]), OLDER);
    expect(messages).toEqual([
      { role: 'user', content: [text('hi')] },
      { role: 'assistant', content },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'toolu_a', content: 'The answer was received.' },
          text('more'),
        ],
      },
    ]);
  });

  test('next to real calls is not used, and has a result when it goes back', async () => {
    const content = [toolUse('toolu_b', 'lookup'), ANSWER];
    const turn = await turnFor(message(content, 'tool_use'), asking({ tools }), OLDER);
    expect(turn).toMatchObject({ text: '', finishReason: 'tool_calls', toolCalls: [{ callId: 'toolu_b' }] });
    const { messages } = await bodyFor(
      request([userMessage('hi'), ...turn.items, result('toolu_b', 'ok')], { tools }),
      OLDER,
    );
    const [, assistant, user] = messages as { content: JsonObject[] }[];
    expect(assistant?.content).toEqual(content);
    expect(user?.content).toMatchObject([
      { tool_use_id: 'toolu_b', content: 'ok' },
      { tool_use_id: 'toolu_a' },
    ]);
  });

  test('is not shown before it is known to be one, and is the same when streamed', async () => {
    const { turn, deltas } = await streamFor(
      [
        started(),
        begun(0, text('')),
        delta(0, { type: 'text_delta', text: 'Here it is.' }),
        stopped(0),
        begun(1, { ...ANSWER, input: {} }),
        json(1, '{"city": '),
        json(1, '"Rome"}'),
        stopped(1),
        ...ended('tool_use'),
      ],
      asking(),
      OLDER,
    );
    expect(deltas).toEqual([{ type: 'text', text: '{"city":"Rome"}' }]);
    expect(turn).toEqual(await turnFor(message([text('Here it is.'), ANSWER], 'tool_use'), asking(), OLDER));
  });

  test('that is cut off is a turn that was too long', async () => {
    const { turn } = await streamFor(
      [
        started(),
        begun(0, { ...ANSWER, input: {} }),
        json(0, '{"city": "Ro'),
        stopped(0),
        ...ended('max_tokens'),
      ],
      asking(),
      OLDER,
    );
    expect(turn).toMatchObject({ text: '{"city": "Ro', toolCalls: [], finishReason: 'length' });
  });

  test('may come as text while the model thinks', async () => {
    const thinking = asking({ settings: { reasoningEffort: 'low' } });
    const turn = await turnFor(message([text('{"city":"Rome"}')]), thinking, OLDER);
    expect(turn).toMatchObject({
      text: '{"city":"Rome"}',
      finishReason: 'stop',
      items: [{ type: 'message' }],
    });
  });

  test('is distinguished from an ordinary call of a tool with that name', async () => {
    const turn = await turnFor(message([ANSWER], 'tool_use'), request('hi'), OLDER);
    expect(turn).toMatchObject({
      text: '',
      finishReason: 'tool_calls',
      toolCalls: [{ name: 'structured_output' }],
    });
  });
});
