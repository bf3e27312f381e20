import { describe, expect, test } from 'vitest';
import { anthropic } from '../../../adapters/anthropic.ts';
import { gemini } from '../../../adapters/gemini.ts';
import { ollama } from '../../../adapters/ollama.ts';
import { openaiChat } from '../../../adapters/openai-chat.ts';
import { openaiResponses } from '../../../adapters/openai-responses.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { Item } from '../../../protocol/item.ts';
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
  isError = false,
): Promise<JsonObject> {
  let body: JsonObject = {};
  const keep = (async (_url: unknown, init: { body: string }) => {
    body = JSON.parse(init.body);
    return new Response('{}', { status: 500 });
  }) as unknown as typeof fetch;
  const transcript: Item[] = [
    userMessage('hi'),
    { type: 'tool_call', callId: 'call_1', name: 'look', arguments: '{}' },
    { type: 'tool_result', callId: 'call_1', output, isError },
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

test.each<{ output: JsonValue }>([
  { output: [{ type: 'image', url: PIXEL }] },
  { output: [{ type: 'input_image' }] },
  { output: [...OUTPUT, { type: 'other' }] },
  { output: [] },
])('$output is JSON text, not parts', async ({ output }) => {
  const { input } = await sent(options => openaiResponses({ ...options, model: 'gpt-5' }), output);
  expect(input).toMatchObject([{}, {}, { output: JSON.stringify(output) }]);
});

test('an error is sent as text', async () => {
  const { input } = await sent(options => openaiResponses({ ...options, model: 'gpt-5' }), OUTPUT, true);
  expect(input).toMatchObject([{}, {}, { output: expect.stringMatching(/^Error: Here it is\./) }]);
});
