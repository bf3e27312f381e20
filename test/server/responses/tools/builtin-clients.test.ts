import { createOpenAI } from '@ai-sdk/openai';
import {
  Agent,
  codeInterpreterTool,
  fileSearchTool,
  OpenAIProvider,
  Runner,
  webSearchTool,
} from '@openai/agents';
import { generateText, stepCountIs, streamText } from 'ai';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  BuiltinDesk,
  computes,
  DONE,
  INCLUDE,
  LOOKS,
  OTHER,
  PAGE,
  SEARCHES,
} from '../../../support/responses/builtin-desk.ts';
import { DIALECTS } from '../../../support/responses/dialect-provider.ts';

let desk: BuiltinDesk;

beforeAll(async () => {
  desk = await BuiltinDesk.open();
});
beforeEach(() => {
  for (const [name, value] of Object.entries(desk.provider.environment)) vi.stubEnv(name, value);
  desk.endpoint.find(PAGE, OTHER);
  desk.provider.play(SEARCHES, LOOKS, computes(), DONE, DONE);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await desk.close();
});

/** Leads a client to the gateway in this process. */
const own = {
  baseURL: 'http://127.0.0.1:4100/v1',
  apiKey: 'unused',
  fetch: async (input: string | URL | Request, init?: RequestInit) => {
    const headers = new Headers(init?.headers);
    headers.set('host', '127.0.0.1:4100');
    return await desk.gateway.app.request(String(input), { ...init, headers });
  },
};
const model = DIALECTS.chat;

describe('the openai client', () => {
  it('puts the streamed items together as they end', async () => {
    const client = new OpenAI(own);
    const stream = client.responses.stream({
      model,
      input: 'Find out.',
      tools: [
        { type: 'web_search' },
        { type: 'file_search', vector_store_ids: ['handbook'] },
        { type: 'code_interpreter', container: { type: 'auto' } },
      ],
      include: [
        'web_search_call.action.sources',
        'file_search_call.results',
        'code_interpreter_call.outputs',
      ],
    });
    const final = await stream.finalResponse();
    expect(final.output.map(({ type }) => type)).toEqual([
      ...['web_search_call', 'file_search_call', 'code_interpreter_call', 'message'],
    ]);
    expect(final.output_text).toBe('Found out.');
    const { output } = await client.responses.retrieve(final.id);
    expect(output.slice(0, 3)).toEqual(final.output.slice(0, 3));
  });

  it('gets the calls of custom tools', async () => {
    desk.provider.play({ calls: [{ name: 'patch', arguments: { input: '+ line' } }] });
    const stream = new OpenAI(own).responses.stream({
      model,
      input: 'Patch it.',
      tools: [{ type: 'custom', name: 'patch' }],
    });
    expect((await stream.finalResponse()).output).toMatchObject([
      { type: 'custom_tool_call', name: 'patch', input: '+ line' },
    ]);
  });
});

describe('the AI SDK', () => {
  const openai = createOpenAI(own);
  const tools = {
    web_search: openai.tools.webSearch({}),
    file_search: openai.tools.fileSearch({ vectorStoreIds: ['handbook'] }),
    code_interpreter: openai.tools.codeInterpreter({}),
  };

  it('has the results of the calls, and continues with its own history', async () => {
    const first = await generateText({ model: openai.responses(model), tools, prompt: 'Find out.' });
    expect(first.text).toBe('Found out.');
    const results = first.content.filter(part => part.type === 'tool-result');
    expect(results.map(({ toolName }) => toolName)).toEqual([
      'web_search',
      'file_search',
      'code_interpreter',
    ]);
    expect(results.map(({ output }) => output)).toMatchObject([
      { action: { query: 'cats' }, sources: [{ url: PAGE.url }, { url: OTHER.url }] },
      { queries: ['vacation days'] },
      { outputs: [{ type: 'logs', logs: '42\n' }] },
    ]);
    const messages = [
      { role: 'user' as const, content: 'Find out.' },
      ...first.response.messages,
      { role: 'user' as const, content: 'And now?' },
    ];
    const next = await generateText({ model: openai.responses(model), tools, messages });
    expect(next.text).toBe('Found out.');
    expect(desk.sent()).toContain('They purr.');
  });

  it('reads every chunk of the stream', async () => {
    const errors: unknown[] = [];
    const result = streamText({
      model: openai.responses(model),
      tools,
      prompt: 'Find out.',
      stopWhen: stepCountIs(2),
      onError: ({ error }) => void errors.push(error),
    });
    const parts: string[] = [];
    for await (const part of result.fullStream) parts.push(part.type);
    expect(errors).toEqual([]);
    expect(parts.filter(type => type === 'tool-result')).toHaveLength(3);
    expect(await result.text).toBe('Found out.');
  });
});

describe('the Agents SDK', () => {
  it.each([false, true])('runs hosted tools, and continues with its history (streamed: %s)', async stream => {
    const runner = new Runner({
      modelProvider: new OpenAIProvider({ openAIClient: new OpenAI(own), useResponses: true }),
      tracingDisabled: true,
    });
    const agent = new Agent({
      name: 'Desk',
      model,
      tools: [
        webSearchTool(),
        fileSearchTool('handbook', { includeSearchResults: true }),
        codeInterpreterTool(),
      ],
      modelSettings: { providerData: { include: INCLUDE } },
    });
    const play = async (input: Parameters<typeof runner.run>[1]) => {
      if (!stream) return await runner.run(agent, input as string);
      const result = await runner.run(agent, input as string, { stream: true });
      for await (const _event of result);
      await result.completed;
      return result;
    };
    const first = await play('Find out.');
    expect(first.finalOutput).toBe('Found out.');
    const calls = first.newItems.filter(({ type }) => type === 'tool_call_item');
    expect(calls.map(({ rawItem }) => (rawItem as { name?: string }).name)).toEqual([
      ...['web_search_call', 'file_search_call', 'code_interpreter_call'],
    ]);
    const second = await play([...first.history, { role: 'user', content: 'And now?' }]);
    expect(second.finalOutput).toBe('Found out.');
    expect(desk.sent()).toContain('They purr.');
  });
});
