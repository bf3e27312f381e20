import { createOpenAI } from '@ai-sdk/openai';
import {
  Agent,
  tool as agentTool,
  OpenAIChatCompletionsModel,
  run,
  setTracingDisabled,
} from '@openai/agents';
import { generateText, Output, stepCountIs, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import * as z from 'zod';
import { type StandIn, startStandIn } from '../../../examples/stand-in/wire/provider.ts';
import { environmentOf } from '../../../examples/stand-in/wire/ways.ts';
import { STEWARD_TASK, stewardInstructions } from '../../../examples/steward/instructions.ts';
import { type Serving, serveRuns } from '../../../server/serve.ts';
import { memoryFolder } from '../../support/examples/steward-session.ts';
import { calling, Gateway } from '../../support/responses/gateway.ts';

/** Real clients against the gateway, the stand-in being its providers. It refuses calls that lack their signatures. */

const PROVIDERS = ['openai', 'openai-chat', 'anthropic', 'gemini', 'deepseek', 'mistral', 'openrouter'];
const ROOT = '/folder';
const INPUT = z.object({ path: z.string(), content: z.optional(z.string()) });
const SCHEMA = {
  type: 'object' as const,
  properties: { path: { type: 'string' }, content: { type: 'string' } },
  required: ['path'],
  additionalProperties: true as const,
};

let standIn: StandIn;
let gateway: Gateway;
let serving: Serving;
let client: OpenAI;
let openai: ReturnType<typeof createOpenAI>;

beforeAll(async () => {
  setTracingDisabled(true);
  standIn = await startStandIn();
  gateway = new Gateway(
    {
      hello: [{ reasoning: 'a greeting', text: 'Hello there.', usage: { inputTokens: 5, outputTokens: 7 } }],
      city: [{ text: '{"city":"Paris"}' }],
      ask: [calling('ask', { what: 'it' }), { text: 'Asked.' }],
      long: [{ text: 'One word after another, for some time.', delayMs: 100 }],
      failing: [{ error: { code: 'server', message: 'out of order', retryable: false } }],
    },
    {
      config: ({ models }) => ({
        models: {
          ...models,
          ...Object.fromEntries(PROVIDERS.map(name => [name, `${name}:gemini-3-stand-in`])),
        },
      }),
    },
  );
  serving = await serveRuns(gateway.app, { host: '127.0.0.1', port: 0 });
  const options = { baseURL: `${serving.url}/v1`, apiKey: 'unused' };
  client = new OpenAI(options);
  openai = createOpenAI(options);
});
beforeEach(() => {
  for (const name of PROVIDERS)
    for (const [variable, value] of Object.entries(environmentOf(name, standIn.root)))
      if (variable !== 'AGENTCHART_MODEL') vi.stubEnv(variable, value);
});
afterAll(async () => {
  await serving.close();
  await gateway.close();
  await standIn[Symbol.asyncDispose]();
});

/** The task of the steward, its tools, and the report that they wrote. */
function desk() {
  const files = new Map(Object.entries({ 'a.md': '# A\n\n[b](b.md)\n', 'c.md': '# C 😀\n' }));
  const execute = memoryFolder(ROOT, files);
  const execution = (name: string, input: z.infer<typeof INPUT>) => execute(name, input as { path: string });
  const names = ['directory_tree', 'read_text_file', 'write_file'];
  return {
    report: () => files.get('REPORT.md'),
    messages: [
      { role: 'system' as const, content: stewardInstructions(ROOT) },
      { role: 'user' as const, content: STEWARD_TASK },
    ],
    functions: names.map(name => ({
      type: 'function' as const,
      function: {
        name,
        description: name,
        parameters: SCHEMA,
        parse: (text: string) => INPUT.parse(JSON.parse(text)),
        function: (input: z.infer<typeof INPUT>) => execution(name, input),
      },
    })),
    agentTools: names.map(name =>
      agentTool({
        name,
        description: name,
        strict: false,
        parameters: SCHEMA,
        execute: input => execution(name, INPUT.parse(input)),
      }),
    ),
    tools: Object.fromEntries(
      names.map(name => [name, tool({ inputSchema: INPUT, execute: input => execution(name, input) })]),
    ),
  };
}
type Desk = ReturnType<typeof desk>;

const TASK = {
  instructions: stewardInstructions(ROOT),
  prompt: STEWARD_TASK,
  stopWhen: stepCountIs(6),
};

/** How people run a loop of tools. */
const LOOPS: Readonly<Record<string, (model: string, desk: Desk) => Promise<string | null>>> = {
  openai: async (model, { messages, functions }) =>
    await client.chat.completions.runTools({ model, messages, tools: functions }).finalContent(),
  'openai, streaming': async (model, { messages, functions }) =>
    await client.chat.completions
      .runTools({ model, messages, tools: functions, stream: true })
      .finalContent(),
  ai: async (model, { tools }) => (await generateText({ ...TASK, model: openai.chat(model), tools })).text,
  'ai, streaming': async (model, { tools }) =>
    await streamText({ ...TASK, model: openai.chat(model), tools }).text,
  agents: async (model, { agentTools }) => {
    const { finalOutput } = await run(agentOf(model, agentTools), STEWARD_TASK);
    return finalOutput ?? null;
  },
  'agents, streaming': async (model, { agentTools }) => {
    const result = await run(agentOf(model, agentTools), STEWARD_TASK, { stream: true });
    await result.completed;
    return result.finalOutput ?? null;
  },
};

function agentOf(model: string, tools: Desk['agentTools']) {
  const instructions = stewardInstructions(ROOT);
  return new Agent({
    name: 'Steward',
    instructions,
    model: new OpenAIChatCompletionsModel(client, model),
    tools,
  });
}

/** Two of the clients with every provider, the others with those that need their signatures back. */
const ALL_PROVIDERS = ['openai', 'ai, streaming'];
const SIGNING = ['anthropic', 'gemini'];

describe.each(Object.entries(LOOPS))('%s', (name, loop) => {
  it.each(ALL_PROVIDERS.includes(name) ? PROVIDERS : SIGNING)(
    'runs its tools in a loop with %s, and the loop is one run',
    async model => {
      const before = (await gateway.store.list({ limit: 1000 })).runs.length;
      const work = desk();
      const text = await loop(model, work);
      expect(text).toContain('I have 1 finding');
      expect(work.report()).toContain('`b.md` does not exist');
      const runs = (await gateway.store.list({ limit: 1000 })).runs;
      expect(runs.length).toBe(before + 1);
      expect(runs[0]?.status).toBe('finished');
    },
  );
});

const GO = [{ role: 'user' as const, content: 'go' }];
const CITY = z.object({ city: z.string() });

describe('the openai client', () => {
  it('streams with its helper, whose final completion has the text, the reasoning and the usage', async () => {
    const deltas: string[] = [];
    const stream = client.chat.completions
      .stream({ model: 'hello', messages: GO, stream_options: { include_usage: true } })
      .on('content', delta => deltas.push(delta));
    const { choices, usage } = await stream.finalChatCompletion();
    expect(deltas.join('')).toBe('Hello there.');
    expect(choices[0]).toMatchObject({ message: { content: 'Hello there.' }, finish_reason: 'stop' });
    expect(usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 7 });
  });

  it('gets calls from a stream', async () => {
    const tools = [{ type: 'function' as const, function: { name: 'ask' } }];
    const stream = client.chat.completions.stream({ model: 'ask', messages: GO, tools });
    expect(await stream.finalMessage()).toMatchObject({
      content: null,
      tool_calls: [{ type: 'function', function: { name: 'ask', arguments: '{"what":"it"}' } }],
    });
  });

  it('parses an answer of a schema', async () => {
    const response_format = zodResponseFormat(CITY, 'city');
    const parsed = await client.chat.completions.parse({ model: 'city', messages: GO, response_format });
    expect(parsed.choices[0]?.message.parsed).toEqual({ city: 'Paris' });
  });

  it('throws the errors of OpenAI, and repeats no failed request', async () => {
    const unknown = client.chat.completions.create({ model: 'none', messages: GO });
    await expect(unknown).rejects.toMatchObject({ status: 400, code: 'model_not_found', param: 'model' });
    const before = (await gateway.store.list({ limit: 1000 })).runs.length;
    const failed = client.chat.completions.create({ model: 'failing', messages: GO });
    await expect(failed).rejects.toMatchObject({ status: 502, code: 'server_error' });
    expect((await gateway.store.list({ limit: 1000 })).runs.length).toBe(before + 1);
  });

  it('throws the error of a stream that fails before it begins', async () => {
    const stream = client.chat.completions.create({ model: 'failing', messages: GO, stream: true });
    await expect(stream).rejects.toMatchObject({ status: 502, code: 'server_error', type: 'server_error' });
  });

  it('lists models, and retrieves one', async () => {
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).toContain('hello');
    expect(await client.models.retrieve('hello')).toMatchObject({ id: 'hello', object: 'model' });
    await expect(client.models.retrieve('none')).rejects.toMatchObject({ status: 404 });
  });

  it('that leaves a stream ends the run', async () => {
    const before = (await gateway.store.list({ limit: 1000 })).runs.length;
    const stream = await client.chat.completions.create({ model: 'long', messages: GO, stream: true });
    for await (const { choices } of stream) if (choices[0]?.delta.content) break;
    await expect
      .poll(async () => (await gateway.store.list({ limit: 1000 })).runs[0]?.status)
      .toBe('cancelled');
    expect((await gateway.store.list({ limit: 1000 })).runs.length).toBe(before + 1);
  });
});

describe('the AI SDK', () => {
  it('gets the usage, and an object of a schema', async () => {
    const hello = await generateText({ model: openai.chat('hello'), prompt: 'go' });
    expect(hello).toMatchObject({ text: 'Hello there.', usage: { inputTokens: 5, outputTokens: 7 } });
    const output = Output.object({ schema: CITY });
    const city = await generateText({ model: openai.chat('city'), prompt: 'go', output });
    expect(city.output).toEqual({ city: 'Paris' });
  });

  it('gets the error in a stream', async () => {
    const errors: unknown[] = [];
    const result = streamText({
      model: openai.chat('failing'),
      prompt: 'go',
      maxRetries: 0,
      onError: ({ error }) => errors.push(error),
    });
    for await (const _part of result.fullStream);
    expect(JSON.stringify(errors)).toContain('out of order');
  });
});
