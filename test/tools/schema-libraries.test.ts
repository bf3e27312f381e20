import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { type } from 'arktype';
import * as v from 'valibot';
import { describe, expect, expectTypeOf, test } from 'vitest';
import * as mini from 'zod/mini';
import * as z3 from 'zod/v3';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { tool } from '../../tools/tool.ts';
import { callOnce } from '../support/engine/call-once.ts';

const JSON_SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
};
const plain = { name: 'weather', description: 'The weather.' };
const ofValibot = v.object({ city: v.pipe(v.string(), v.minLength(2)) });

describe('a schema of arktype', () => {
  const input = type({ city: 'string > 1' });

  test('works as it is: typed, sent to the model, checked', async () => {
    const made = tool({
      ...plain,
      input,
      output: type({ celsius: 'number' }),
      run: ({ city }) => {
        expectTypeOf(city).toBeString();
        return { celsius: city.length };
      },
    });
    expect(made.inputSchema).toMatchObject(JSON_SCHEMA);
    expect((await callOnce(made, '{"city":"Ulm"}')).result?.output).toEqual({ celsius: 3 });
    expect(await made.validate({ city: 'U' })).toMatchObject({
      valid: false,
      message: expect.stringMatching(/^city: .*at least length 2/),
    });
  });

  test('holds the output of a tool and the answer of an agent', async () => {
    const wrong = tool({ ...plain, input, output: type({ celsius: 'number' }), run: () => ({}) as never });
    expect((await callOnce(wrong, '{"city":"Ulm"}')).result).toMatchObject({
      isError: true,
      output: expect.stringContaining('output schema: celsius:'),
    });
    const host = new ManualHost();
    const model = scripted([{ text: '{"city":"Ulm"}' }]);
    const agent = createAgent({ name: 'a', host, model, output: input });
    expect(await host.settle(agent.run('go'))).toMatchObject({ output: { city: 'Ulm' } });
  });
});

describe('a schema of valibot', () => {
  test('works with the JSON Schema of @valibot/to-json-schema', async () => {
    const made = tool({
      ...plain,
      input: toStandardJsonSchema(ofValibot),
      run: ({ city }) => {
        expectTypeOf(city).toBeString();
        return city.length;
      },
    });
    expect(made.inputSchema).toMatchObject(JSON_SCHEMA);
    expect((await callOnce(made, '{"city":"Ulm"}')).result?.output).toBe(3);
    expect(await made.validate({ city: 'U' })).toMatchObject({
      valid: false,
      message: expect.stringMatching(/^city: /),
    });
  });

  test('without it is refused with the package that makes it work', () => {
    expect(() => tool({ ...plain, input: ofValibot })).toThrow(
      'Run `npm install @valibot/to-json-schema` and wrap the schema: `toStandardJsonSchema(schema)`',
    );
    const agent = () => createAgent({ name: 'a', model: scripted([]), output: ofValibot });
    expect(agent).toThrow('@valibot/to-json-schema');
  });

  test('works as it is where no JSON Schema is needed: as the output of a tool, or with its own JSON Schema', async () => {
    const made = tool({
      ...plain,
      input: ofValibot,
      inputSchema: { type: 'object', properties: { city: { type: 'string' } } },
      output: v.number(),
      run: ({ city }) => city.length,
    });
    expect((await callOnce(made, '{"city":"Ulm"}')).result?.output).toBe(3);
  });
});

test.each([
  ['zod/mini', mini.object({ city: mini.string() }), /Pass `inputSchema: z\.toJSONSchema\(schema\)`/],
  ['zod 3', z3.z.object({ city: z3.z.string() }), /Use zod 4\.2 or newer/],
])('a schema of %s is refused with what makes it work', (_, input, message) => {
  expect(() => tool({ ...plain, input })).toThrow(message);
});
