import { openai } from '@ai-sdk/openai';
import { dynamicTool, jsonSchema, tool as sdkTool, zodSchema } from 'ai';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import * as z3 from 'zod/v3';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { RunHappening } from '../../engine/run/run.ts';
import { EngineError } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { type AiSdkTool, type AiSdkToolSettings, aiSdkTools } from '../../tools/ai-sdk.ts';
import { calls } from '../support/engine/agents.ts';
import { callOnce } from '../support/engine/call-once.ts';
import { recordRequests } from '../support/engine/models.ts';

/** The one tool of a record. */
function convert(given: AiSdkTool, settings?: AiSdkToolSettings) {
  const [made] = aiSdkTools({ act: given }, settings && { act: settings });
  if (made === undefined) throw new Error('expected a tool');
  return made;
}

const city = z.object({ city: z.string().describe('Where') });

describe('a tool of the AI SDK', () => {
  test('is deferred if it says so, unless its settings replace that', () => {
    const late = sdkTool({ description: 'x', inputSchema: city, deferLoading: true });
    expect(convert(late).deferred).toBe(true);
    expect(convert(late, { deferred: false }).deferred).toBeUndefined();
  });

  test('has its name, description and schema, and runs with its validated input', async () => {
    const seen: unknown[] = [];
    const weather = sdkTool({
      description: 'The weather.',
      inputSchema: city,
      strict: true,
      execute: async (input, options) => {
        seen.push(input, options.toolCallId, options.messages, options.abortSignal instanceof AbortSignal);
        return { city: input.city, celsius: 21 };
      },
    });
    const made = convert(weather, { sideEffect: 'none', maxResultBytes: 5_000 });
    expect(made).toMatchObject({
      name: 'act',
      description: 'The weather.',
      strict: true,
      sideEffect: 'none',
      maxResultBytes: 5_000,
      fixedApproval: false,
      inputSchema: { type: 'object', required: ['city'] },
    });
    const { result } = await callOnce(made, '{"city":"Ulm"}');
    expect(result).toMatchObject({ output: { city: 'Ulm', celsius: 21 }, isError: false });
    expect(seen).toEqual([{ city: 'Ulm' }, 'call_0_0', [], true]);
  });

  test.each([
    [
      'jsonSchema()',
      jsonSchema({ type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }),
    ],
    ['zodSchema() of zod 3', zodSchema(z3.z.object({ city: z3.z.string() }))],
    ['a function that returns one', () => zodSchema(city)],
  ])('with %s has its arguments checked', async (_, inputSchema) => {
    const made = convert({ inputSchema, execute: () => 'done' });
    expect(made.inputSchema).toMatchObject({ type: 'object', properties: { city: { type: 'string' } } });
    expect(await made.validate({ city: 'Ulm' })).toMatchObject({ valid: true, value: { city: 'Ulm' } });
    expect(await made.validate({ city: 1 })).toMatchObject({ valid: false });
    expect(await made.validate({})).toMatchObject({ valid: false });
  });

  test('without an input schema takes no arguments', async () => {
    const made = convert({ inputSchema: undefined, execute: () => 'done' });
    expect(await made.validate({})).toMatchObject({ valid: true });
    expect(await made.validate({ more: 1 })).toMatchObject({ valid: false });
  });

  test('without execute is a client tool', async () => {
    const confirm = sdkTool({
      description: 'Asks.',
      inputSchema: city,
      outputSchema: z.object({ yes: z.boolean() }),
    });
    const host = new ManualHost();
    const model = scripted([calls(['confirm', { city: 'Ulm' }]), { text: 'done' }]);
    const run = await createAgent({ name: 'a', host, model, tools: aiSdkTools({ confirm }) }).start('go');
    expect(await host.settle(run.settled())).toMatchObject({
      status: 'waiting',
      open: [{ kind: 'result', name: 'confirm', input: { city: 'Ulm' } }],
    });
    await run.answer('call_0_0', { output: { yes: true } });
    expect(await host.settle(run.settled())).toMatchObject({ results: [{ output: { yes: true } }] });
  });

  test.each([
    [true, { city: 'Ulm' }, 'waiting'],
    [false, { city: 'Ulm' }, 'finished'],
    [({ city }: { city: string }) => city === 'Ulm', { city: 'Ulm' }, 'waiting'],
    [async ({ city }: { city: string }) => city === 'Ulm', { city: 'Bonn' }, 'finished'],
  ])('with needsApproval %s and %j leaves the run %s', async (needsApproval, input, status) => {
    const made = convert(sdkTool({ inputSchema: city, needsApproval, execute: () => 'done' }));
    expect((await callOnce(made, JSON.stringify(input))).settled.status).toBe(status);
  });

  test('keeps its needsApproval unless the settings have an approval', async () => {
    const given = sdkTool({ inputSchema: city, needsApproval: true, execute: () => 'done' });
    const unset = { approval: undefined } as object;
    expect(convert(given, unset).fixedApproval).toBe(true);
    expect(convert(given, { approval: false }).fixedApproval).toBe(false);
  });

  test('sends the values that execute yields as progress, and the last one is the result', async () => {
    const count = sdkTool({
      inputSchema: z.object({}),
      async *execute() {
        yield { at: 1 };
        yield { at: 2 };
        yield { at: 3 };
      },
    });
    const host = new ManualHost();
    const model = scripted([calls('count'), { text: 'done' }]);
    const run = await createAgent({ name: 'a', host, model, tools: aiSdkTools({ count }) }).start('go');
    const seen: RunHappening[] = [];
    const reading = (async () => {
      for await (const happening of run.events()) seen.push(happening);
    })();
    const settled = await host.settle(run.settled());
    await host.settle(reading);
    expect(settled).toMatchObject({ results: [{ output: { at: 3 } }] });
    const progress = seen.flatMap(one => (one.type === 'tool.progress' ? [one.data] : []));
    expect(progress).toEqual([{ at: 1 }, { at: 2 }, { at: 3 }]);
  });

  test('gets the run context as its context, checked by its contextSchema', async () => {
    const host = new ManualHost();
    const whoAmI = sdkTool({
      inputSchema: z.object({}),
      contextSchema: z.object({ user: z.string() }),
      execute: (_, { context }) => context.user,
    });
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([calls('whoAmI'), { text: 'done' }]),
      runContext: z.object({ user: z.string(), tenant: z.string() }),
      tools: aiSdkTools({ whoAmI }),
    });
    const run = await agent.start('go', { runContext: { user: '7', tenant: 'a' } });
    expect(await host.settle(run.settled())).toMatchObject({ results: [{ output: '7' }] });
  });

  test('has a result that violates its outputSchema as an error', async () => {
    const made = convert({
      inputSchema: city,
      outputSchema: z.object({ n: z.number() }),
      execute: () => ({ n: 'x' }),
    });
    const { result } = await callOnce(made, '{"city":"Ulm"}');
    expect(result).toMatchObject({ isError: true, output: expect.stringContaining('output schema: n:') });
  });

  test('that was made at run time is accepted', async () => {
    const made = convert(
      dynamicTool({ inputSchema: city, execute: async input => ({ input }) as JsonValue }),
    );
    expect((await callOnce(made, '{"city":"Ulm"}')).result?.output).toEqual({ input: { city: 'Ulm' } });
  });
});

describe('toModelOutput', () => {
  const PNG = 'iVBORw0KGgo=';
  const read = async (modelOutput: unknown, returned: unknown = { id: 7 }) => {
    const made = convert({
      inputSchema: z.object({}),
      execute: () => returned,
      toModelOutput: () => modelOutput,
    });
    return (await callOnce(made)).result;
  };

  test.each([
    ['its text', { type: 'text', value: 'Seven.' }, [{ type: 'text', text: 'Seven.' }]],
    ['its JSON', { type: 'json', value: { seven: 7 } }, [{ type: 'text', text: '{"seven":7}' }]],
    [
      'its texts, images and files',
      {
        type: 'content',
        value: [
          { type: 'text', text: 'Here:' },
          { type: 'file', mediaType: 'image', data: { type: 'data', data: PNG } },
          {
            type: 'file',
            mediaType: 'image/png',
            data: { type: 'url', url: new URL('https://x.test/a.png') },
          },
          {
            type: 'file',
            mediaType: 'application/pdf',
            filename: 'a.pdf',
            data: { type: 'data', data: new Uint8Array([0]) },
          },
          { type: 'file', mediaType: 'text/plain', data: { type: 'text', text: 'inline' } },
          { type: 'image-data', mediaType: 'image/png', data: PNG },
          { type: 'file-url', url: 'https://x.test/a.pdf' },
          { type: 'custom' },
        ],
      },
      [
        { type: 'text', text: 'Here:' },
        { type: 'image', url: `data:image/png;base64,${PNG}` },
        { type: 'image', url: 'https://x.test/a.png' },
        {
          type: 'file',
          url: 'data:application/pdf;base64,AA==',
          mediaType: 'application/pdf',
          name: 'a.pdf',
        },
        { type: 'text', text: 'inline' },
        { type: 'image', url: `data:image/png;base64,${PNG}` },
        { type: 'file', url: 'https://x.test/a.pdf' },
        { type: 'text', text: '[A part of type "custom" was left out: only its provider can read it.]' },
      ],
    ],
  ])('gives the model %s, and programs what execute returned', async (_, modelOutput, parts) => {
    expect(await read(modelOutput)).toMatchObject({
      isError: false,
      output: { type: 'content', parts, data: { id: 7 } },
    });
  });

  test('that returns what execute returned changes nothing', async () => {
    expect((await read({ type: 'json', value: { id: 7 } }))?.output).toEqual({ id: 7 });
    expect((await read({ type: 'text', value: 'same' }, 'same'))?.output).toBe('same');
  });

  test('of a large result leaves it out of the data', async () => {
    const result = await read({ type: 'text', value: 'short' }, 'x'.repeat(200_000));
    expect(result?.output).toEqual({ type: 'content', parts: [{ type: 'text', text: 'short' }] });
  });

  test.each([
    [{ type: 'error-text', value: 'no such order' }, 'no such order'],
    [{ type: 'error-json', value: { code: 4 } }, '{"code":4}'],
    [{ type: 'execution-denied', reason: 'not today' }, 'not today'],
    [{ type: 'other' }, 'returned neither text, json, content nor an error'],
  ])('%j is an error', async (modelOutput, message) => {
    expect(await read(modelOutput)).toMatchObject({
      isError: true,
      output: expect.stringContaining(message),
    });
  });

  test('with an image reaches the model as content', async () => {
    const look = sdkTool({
      inputSchema: z.object({}),
      execute: () => ({ png: PNG }),
      toModelOutput: ({ output }) => ({
        type: 'content',
        value: [{ type: 'file', mediaType: 'image/png', data: { type: 'data', data: output.png } }],
      }),
    });
    const host = new ManualHost();
    const { model, requests } = recordRequests(scripted([calls('look'), { text: 'done' }]));
    const run = await createAgent({ name: 'a', host, model, tools: aiSdkTools({ look }) }).start('go');
    await host.settle(run.settled());
    expect(requests[1]?.transcript.find(item => item.type === 'tool_result')).toMatchObject({
      output: { parts: [{ type: 'image', url: `data:image/png;base64,${PNG}` }] },
    });
  });
});

describe('is refused by name:', () => {
  test.each<[string, AiSdkTool, RegExp]>([
    [
      "a provider's tool",
      openai.tools.webSearch({}),
      /tool "act": openai\.web_search is a tool of a provider.*providerTools/,
    ],
    [
      'a promised schema',
      { inputSchema: jsonSchema(async () => ({ type: 'object' })) },
      /is a promise\. Await it first/,
    ],
    ['a plain JSON Schema', { inputSchema: { type: 'object' } }, /pass jsonSchema\(schema\)/],
    ['a schema of zod 3', { inputSchema: z3.z.object({}) }, /Use zod 4\.2 or newer/],
    [
      'a description that needs a context',
      { inputSchema: city, description: ({ context }: { context: { n: string } }) => context.n },
      /Pass a text as description/,
    ],
  ])('%s', (_, given, message) => {
    expect(() => convert(given)).toThrow(EngineError);
    expect(() => convert(given)).toThrow(message);
  });

  test('settings of a tool that is not there', () => {
    const settings = { weather: { sideEffect: 'none' } } as object;
    expect(() => aiSdkTools({ act: { inputSchema: city } }, settings)).toThrow(
      'there are settings of weather, but the tools are act',
    );
  });
});
