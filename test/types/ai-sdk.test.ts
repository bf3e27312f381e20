import { dynamicTool, jsonSchema, tool as sdkTool } from 'ai';
import { expect, expectTypeOf, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import type { Part } from '../../protocol/item.ts';
import { aiSdkTools } from '../../tools/ai-sdk.ts';
import { calls } from '../support/engine/agents.ts';

type Weather = { city: string; celsius: number };

const city = z.object({ city: z.string() });
const tools = aiSdkTools({
  weather: sdkTool({
    inputSchema: city,
    execute: async ({ city }) => ({ city, celsius: 21 }),
    needsApproval: true,
  }),
  plain: { inputSchema: city, execute: ({ city }: { city: string }) => city.length },
  streamed: {
    inputSchema: jsonSchema<{ n: number }>({ type: 'object', properties: { n: { type: 'number' } } }),
    async *execute({ n }: { n: number }) {
      yield { at: n };
    },
  },
  confirm: sdkTool({ inputSchema: city, outputSchema: z.object({ yes: z.boolean() }) }),
  dynamic: dynamicTool({ inputSchema: z.object({}), execute: async () => 'any' }),
});

test('the names, inputs and results of AI SDK tools are the types of a settled run', async () => {
  const model = scripted([calls(['weather', { city: 'Ulm' }], ['plain', { city: 'Ulm' }]), { text: 'done' }]);
  const agent = createAgent({ name: 'desk', model, tools, toolChoice: { name: 'weather' } });
  const run = await agent.start('go');
  const waiting = await run.settled();
  if (waiting.status !== 'waiting') throw new Error(waiting.status);
  const [call] = waiting.approvals;
  expectTypeOf(waiting.approvals[0]?.name).toEqualTypeOf<
    'weather' | 'plain' | 'streamed' | 'confirm' | 'dynamic' | undefined
  >();
  if (call?.name !== 'weather') throw new Error('expected the weather to wait');
  expectTypeOf(call.input).toEqualTypeOf<{ city: string }>();
  // @ts-expect-error the city is a text
  expect(await run.approve(call, { input: { city: 7 } })).toMatchObject({ code: 'input-invalid' });
  expect(await run.approve(call, { input: { city: 'Bonn' } })).toEqual({ accepted: true });
  const ended = await run.settled();
  if (ended.status !== 'finished') throw new Error(ended.status);
  for (const result of ended.results) {
    if (result.isError) continue;
    if (result.name === 'weather')
      expectTypeOf(result.output).toEqualTypeOf<
        Weather | { type: 'content'; parts: Part[]; data?: Weather }
      >();
    if (result.name === 'plain') expectTypeOf(result.output).toEqualTypeOf<number>();
    if (result.name === 'streamed') expectTypeOf(result.output).toEqualTypeOf<{ at: number }>();
    if (result.name === 'confirm')
      expectTypeOf(result.output).toExtend<{ yes: boolean } | { type: 'content' }>();
  }
  expect(ended.results.map(({ name, output }) => [name, output])).toEqual([
    ['weather', { city: 'Bonn', celsius: 21 }],
    ['plain', 3],
  ]);
});

test('settings name a tool of the record, and an agent has the context that a tool needs', () => {
  // @ts-expect-error there is no tool "wether"
  expect(() => aiSdkTools({ weather: { inputSchema: city } }, { wether: {} })).toThrow(/wether/);
  const priced = aiSdkTools({
    price: sdkTool({
      inputSchema: city,
      contextSchema: z.object({ currency: z.string() }),
      execute: (_, { context }) => context.currency,
    }),
  });
  // @ts-expect-error the agent has no run context
  expect(() => createAgent({ name: 'desk', tools: priced })).toThrow(/needs a run context/);
  createAgent({ name: 'desk', tools: priced, runContext: z.object({ currency: z.string() }) });
});
