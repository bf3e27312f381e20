import { describe, expect, test } from 'vitest';
import { aiSdk } from '../../../adapters/ai-sdk.ts';
import { anthropic } from '../../../adapters/anthropic.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { ollama } from '../../../adapters/ollama.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item, Part, ToolResultItem } from '../../../protocol/item.ts';
import type { JsonObject, JsonValue } from '../../../protocol/json.ts';
import { userMessage } from '../../../protocol/message.ts';
import { calling, request } from '../../support/adapters/requests.ts';

const PIXEL = 'data:image/png;base64,AAAA';
const PAPER = 'data:application/pdf;base64,BBBB';
const OUTPUT = [
  { type: 'input_text', text: 'Here it is.' },
  { type: 'input_image', image_url: PIXEL, detail: 'high' },
  { type: 'input_file', file_data: PAPER, filename: 'paper.pdf' },
];
const NOTE = /Here it is\..*The tool returned an image here.*The tool returned a file "paper.pdf" here/s;

/** The body that the adapter sends for a call with this output. */
async function sent(
  make: (options: { fetch: typeof fetch; apiKey: string }) => ModelAdapter,
  output: JsonValue = OUTPUT,
  rest: Partial<ToolResultItem> = {},
): Promise<JsonObject> {
  let body: JsonObject = {};
  const keep = (async (_url: unknown, init: { body: string }) => {
    body = JSON.parse(init.body);
    return new Response('{}', { status: 500 });
  }) as unknown as typeof fetch;
  const transcript: Item[] = [
    userMessage('hi'),
    { type: 'tool_call', callId: 'call_1', name: 'look', arguments: '{}' },
    { type: 'tool_result', callId: 'call_1', output, isError: false, ...rest },
  ];
  const adapter = make({ fetch: keep, apiKey: 'key' });
  await adapter.generate(request(transcript), calling()).catch(() => {});
  return body;
}

describe('an output of text, an image and a file', () => {
  test('is sent to the Responses API as these parts', async () => {
    const { input } = await sent(options => openaiResponses({ ...options, model: 'gpt-5' }));
    expect(input).toMatchObject([{}, {}, { type: 'function_call_output', output: OUTPUT }]);
  });

  test('is sent to Anthropic as blocks of the tool_result', async () => {
    const { messages } = await sent(options => anthropic({ ...options, model: 'claude-sonnet-4-5' }));
    const content = [
      { type: 'text', text: 'Here it is.' },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
      {
        type: 'document',
        title: 'paper.pdf',
        source: { type: 'base64', media_type: 'application/pdf', data: 'BBBB' },
      },
    ];
    expect(messages).toMatchObject([{}, {}, { content: [{ type: 'tool_result', content }] }]);
  });

  const parts = [
    { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
    { inlineData: { mimeType: 'application/pdf', data: 'BBBB' } },
  ];
  const response = { name: 'look', response: { result: 'Here it is.' } };

  test('is sent to Gemini 3 as parts of the response', async () => {
    const { contents } = await sent(options => gemini({ ...options, model: 'gemini-3-pro-preview' }));
    expect(contents).toMatchObject([{}, {}, { parts: [{ functionResponse: { ...response, parts } }] }]);
  });

  test('is sent to older Gemini models as parts after the response', async () => {
    const { contents } = await sent(options => gemini({ ...options, model: 'gemini-2.5-flash' }));
    expect(contents).toMatchObject([{}, {}, { parts: [{ functionResponse: response }, ...parts] }]);
  });

  test('is a text that names the omitted parts where tools return only text', async () => {
    const chat = await sent(options => openaiChat({ ...options, model: 'gpt-4o' }));
    expect(chat.messages).toMatchObject([{}, {}, { role: 'tool', content: expect.stringMatching(NOTE) }]);
    const local = await sent(options => ollama({ ...options, model: 'qwen3' }));
    expect(local.messages).toMatchObject([{}, {}, { role: 'tool', content: expect.stringMatching(NOTE) }]);
    expect(JSON.stringify([chat, local])).not.toMatch(/AAAA|BBBB/);
  });
});

describe('content', () => {
  const parts: Part[] = [
    { type: 'text', text: 'Before:' },
    { type: 'image', url: PIXEL },
    { type: 'text', text: 'After:' },
    { type: 'image', url: 'https://x.test/after.webp' },
    { type: 'file', url: 'data:audio/wav;base64,CCCC', name: 'click.wav' },
  ];
  const CONTENT = { type: 'content', parts, data: { secret: 'for programs' } };
  const HEARD = /The tool returned a file "click\.wav" here \(audio\/wav file.*This model cannot read it/;

  test('keeps the order of its parts, and a note replaces what the model cannot read', async () => {
    const { input } = await sent(options => openaiResponses({ ...options, model: 'gpt-5' }), CONTENT);
    const output = [
      { type: 'input_text', text: 'Before:' },
      { type: 'input_image', image_url: PIXEL, detail: 'auto' },
      { type: 'input_text', text: 'After:' },
      { type: 'input_image', image_url: 'https://x.test/after.webp', detail: 'auto' },
      { type: 'input_text', text: expect.stringMatching(HEARD) },
    ];
    expect(input).toMatchObject([{}, {}, { output }]);
    const { messages } = await sent(
      options => anthropic({ ...options, model: 'claude-sonnet-4-5' }),
      CONTENT,
    );
    const content = [
      { type: 'text', text: 'Before:' },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
      { type: 'text', text: 'After:' },
      { type: 'image', source: { type: 'url', url: 'https://x.test/after.webp' } },
      { type: 'text', text: expect.stringMatching(HEARD) },
    ];
    expect(messages).toMatchObject([{}, {}, { content: [{ type: 'tool_result', content }] }]);
    expect(JSON.stringify([input, messages])).not.toMatch(/CCCC|for programs/);
  });

  test('of a sound follows the response to Gemini 3, which reads it there', async () => {
    const { contents } = await sent(
      options => gemini({ ...options, model: 'gemini-3-pro-preview' }),
      CONTENT,
    );
    expect(contents).toMatchObject([
      {},
      {},
      {
        parts: [
          { functionResponse: { response: { result: 'Before:\nAfter:' }, parts: [{}, {}] } },
          { inlineData: { mimeType: 'audio/wav', data: 'CCCC' } },
        ],
      },
    ]);
  });

  test.each([
    ['anthropic.messages', 'content'],
    ['openai.responses', 'content'],
    ['openai.chat', 'text'],
  ])('is sent to %s of the AI SDK as %s', async (provider, type) => {
    let prompt: JsonValue = [];
    const model = {
      specificationVersion: 'v4',
      provider,
      modelId: 'm',
      supportedUrls: {},
      doGenerate: (options: { prompt: JsonValue }) => {
        prompt = options.prompt;
        throw new Error('enough');
      },
    } as unknown as Parameters<typeof aiSdk>[0];
    await sent(() => aiSdk(model), CONTENT);
    expect(prompt).toMatchObject([{}, {}, { role: 'tool', content: [{ output: { type } }] }]);
    expect(JSON.stringify(prompt)).toMatch(type === 'content' ? /"data":"AAAA"/ : /returned an image here/);
    expect(JSON.stringify(prompt)).not.toMatch(/CCCC|for programs/);
  });

  test('with a shorter text for the model keeps its images', async () => {
    const shown = 'Shorter.';
    const { input } = await sent(options => openaiResponses({ ...options, model: 'gpt-5' }), CONTENT, {
      shown,
    });
    const [first, ...media] = (input as { output: JsonObject[] }[])[2]?.output ?? [];
    expect(first).toEqual({ type: 'input_text', text: shown });
    expect(media.map(part => part.type)).toEqual(['input_image', 'input_image', 'input_text']);
  });

  test('without images is sent as text', async () => {
    const output = {
      type: 'content',
      parts: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    };
    const { input } = await sent(options => openaiResponses({ ...options, model: 'gpt-5' }), output);
    expect(input).toMatchObject([{}, {}, { output: 'a\nb' }]);
  });
});

test.each<{ output: JsonValue }>([
  { output: { type: 'content', parts: 'none' } },
  { output: { type: 'content', parts: [{ type: 'image', url: 'dot.png' }] } },
  { output: [{ type: 'image', url: PIXEL }] },
  { output: [{ type: 'input_image' }] },
  { output: [...OUTPUT, { type: 'other' }] },
  { output: [] },
])('$output is JSON text, not parts', async ({ output }) => {
  const { input } = await sent(options => openaiResponses({ ...options, model: 'gpt-5' }), output);
  expect(input).toMatchObject([{}, {}, { output: JSON.stringify(output) }]);
});

test('an error is sent as text', async () => {
  const { input } = await sent(options => openaiResponses({ ...options, model: 'gpt-5' }), OUTPUT, {
    isError: true,
  });
  expect(input).toMatchObject([{}, {}, { output: expect.stringMatching(/^Error: Here it is\./) }]);
});
