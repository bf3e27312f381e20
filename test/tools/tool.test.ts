import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec';
import { describe, expect, expectTypeOf, it } from 'vitest';
import * as z from 'zod';
import { EngineError } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import {
  type ApprovalCall,
  type CallView,
  type Tool,
  type ToolCallContext,
  toolDefinition,
} from '../../protocol/tool.ts';
import { type ToolRunContext, tool } from '../../tools/tool.ts';
import { createContext } from '../support/tools/call-context.ts';

const refundInput = z.object({ orderId: z.string(), cents: z.int().positive() });
const call = (input: JsonValue): CallView => ({
  callId: 'call-1',
  runId: 'run-1',
  name: 'refund',
  input,
  runContext: undefined,
});
const basics = { name: 'refund', description: 'Pays back.', input: refundInput };

function errorOf(define: () => unknown): EngineError {
  try {
    define();
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error('expected an EngineError');
}

/** A handwritten Standard Schema: `{ n: string }` to `{ n: number }`. */
function handWritten(): StandardSchemaV1<{ n: string }, { n: number }> {
  return {
    '~standard': {
      version: 1,
      vendor: 'by-hand',
      validate(value) {
        const n = Number((value as { n?: unknown } | null)?.n);
        if (Number.isNaN(n)) return { issues: [{ message: 'expected digits', path: [{ key: 'n' }] }] };
        return { value: { n } };
      },
    },
  };
}

describe('a defined tool', () => {
  it('is `once`, without retries and without approval by default', async () => {
    const refund = tool({ ...basics, run: () => 'ok' });
    expect(refund).toMatchObject({ name: 'refund', sideEffect: 'once', retries: 0 });
    expect('timeoutMs' in refund).toBe(false);
    expect(await refund.approval(call({ orderId: 'A', cents: 1 }))).toBe(false);
  });

  it('has an object schema without $schema', () => {
    const definition = toolDefinition(tool({ ...basics, strict: true, run: () => 'ok' }));
    expect(definition).toEqual({
      name: 'refund',
      description: 'Pays back.',
      strict: true,
      inputSchema: {
        type: 'object',
        properties: {
          orderId: { type: 'string' },
          cents: { type: 'integer', exclusiveMinimum: 0, maximum: Number.MAX_SAFE_INTEGER },
        },
        required: ['orderId', 'cents'],
      },
    });
  });

  it('has no run function when the client executes it', () => {
    expect('run' in tool(basics)).toBe(false);
  });

  it('runs with the output of its schema and the given context', async () => {
    const context = createContext();
    const due = tool({
      name: 'due',
      description: '',
      input: z.object({ day: z.string().transform(day => new Date(day)) }),
      run: ({ day }, { key }) => [day.getUTCFullYear(), key],
    });
    const validation = await due.validate({ day: '2024-02-03' });
    if (!validation.valid) throw new Error(validation.message);
    expect(await due.run?.(validation.value, context)).toEqual([2024, 'key-1']);
  });

  it('passes the call to reconcile, and returns its answer', async () => {
    const refund = tool({
      ...basics,
      run: () => 'ok',
      reconcile: ({ input }, { key }) => ({ happened: true, output: `${input.orderId} ${key}` }),
    });
    const found = await refund.reconcile?.(call({ orderId: 'A-1', cents: 5 }), createContext());
    expect(found).toEqual({ happened: true, output: 'A-1 key-1' });
  });

  it.each(['undefined', 'null', '{"maybe":true}', '{"happened":"no"}', '{"unknown":false}', '"happened"'])(
    'rejects %s from reconcile, and never reads it as "it did not happen"',
    async text => {
      const answer = text === 'undefined' ? undefined : JSON.parse(text);
      const refund = tool({ ...basics, run: () => 'ok', reconcile: () => answer });
      const answered = Promise.resolve(
        refund.reconcile?.(call({ orderId: 'A-1', cents: 5 }), createContext()),
      );
      await expect(answered).rejects.toThrow('reconcile of "refund": expected {');
    },
  );
});

describe('input validation', () => {
  it('lists every issue with its path', async () => {
    const input = z.object({ orderId: z.string(), items: z.array(z.object({ sku: z.string() })) });
    const order = tool({ name: 'order', description: '', input });
    expect(await order.validate({ items: [{ sku: 'a' }, { sku: 1 }] })).toEqual({
      valid: false,
      message: 'orderId: expected string, received undefined; items[1].sku: expected string, received number',
    });
  });

  it('limits the number of listed issues, and counts the rest', async () => {
    const numbers = tool({ name: 'sum', description: '', input: z.object({ all: z.array(z.number()) }) });
    const validation = await numbers.validate({ all: Array.from({ length: 500 }, () => 'x') });
    expect(validation).toMatchObject({ valid: false, message: expect.stringMatching(/; and 490 more$/) });
  });

  it('reports an invalid input when the schema itself throws or rejects', async () => {
    const throwing = handWritten();
    const schema = (validate: () => never | Promise<never>) => ({
      '~standard': { ...throwing['~standard'], validate },
    });
    const define = (input: StandardSchemaV1) =>
      tool({ name: 'x', description: '', input, inputSchema: { type: 'object' } });
    const boom = new Error('boom');
    for (const validate of [
      () => Promise.reject(boom),
      () => {
        throw boom;
      },
    ]) {
      expect(await define(schema(validate)).validate({})).toEqual({
        valid: false,
        message: 'the schema failed to validate the value: boom',
      });
    }
  });

  it('waits for an asynchronous schema', async () => {
    const input = z.object({ id: z.string().refine(async id => id === 'known', 'nobody has this id') });
    const lookup = tool({ name: 'lookup', description: '', input });
    expect(await lookup.validate({ id: 'known' })).toEqual({ valid: true, value: { id: 'known' } });
    expect(await lookup.validate({ id: 'other' })).toEqual({
      valid: false,
      message: 'id: nobody has this id',
    });
  });

  it('handles names of Object.prototype', async () => {
    const input = z.looseObject({ constructor: z.string() });
    const odd = tool({ name: 'constructor', description: '', input, run: value => value });
    const hostile: JsonValue = JSON.parse('{"constructor":"c","__proto__":{"polluted":true}}');
    const validation = await odd.validate(hostile);
    if (!validation.valid) throw new Error(validation.message);
    expect(await odd.run?.(validation.value, createContext())).toMatchObject({ constructor: 'c' });
    expect('polluted' in {}).toBe(false);
    expect(await odd.validate({})).toMatchObject({ valid: false });
    expect(odd.name).toBe('constructor');
  });
});

describe('a Standard Schema of any library', () => {
  it('without JSON Schema is refused, and the error recommends inputSchema', () => {
    const error = errorOf(() => tool({ name: 'count', description: '', input: handWritten() }));
    expect(error.code).toBe('agent-invalid');
    expect(error.message).toMatch(/"count".*"by-hand".*`inputSchema`/);
  });

  it('without JSON Schema works with an inputSchema', async () => {
    const inputSchema = { $schema: 'x', type: 'object', properties: { n: { type: 'string' } } };
    const count = tool({ name: 'count', description: '', input: handWritten(), inputSchema });
    expect(count.inputSchema).toEqual({ type: 'object', properties: { n: { type: 'string' } } });
    expect(await count.validate({ n: '12' })).toEqual({ valid: true, value: { n: 12 } });
    expect(await count.validate({ n: 'x' })).toEqual({ valid: false, message: 'n: expected digits' });
  });

  it('is converted to JSON Schema once, in draft-07 when it does not support 2020-12', async () => {
    const targets: string[] = [];
    const base = handWritten()['~standard'];
    const jsonSchema: StandardJSONSchemaV1.Converter = {
      input({ target }) {
        targets.push(target);
        if (target !== 'draft-07') throw new Error(`no ${target}`);
        return { type: 'object', properties: {} };
      },
      output: () => ({}),
    };
    const input = { '~standard': { ...base, jsonSchema } };
    const count = tool({ name: 'count', description: '', input });
    await count.validate({ n: '1' });
    expect([toolDefinition(count).inputSchema, toolDefinition(count).inputSchema]).toEqual([
      { type: 'object', properties: {} },
      { type: 'object', properties: {} },
    ]);
    expect(targets).toEqual(['draft-2020-12', 'draft-07']);
  });
});

describe('an invalid definition is refused', () => {
  const refused: [string, () => unknown, RegExp][] = [
    [
      'retries on a once tool',
      // @ts-expect-error a call that must not run twice has no retries
      () => tool({ ...basics, retries: 1 }),
      /"refund".*"once" cannot have retries, got 1/,
    ],
    [
      'fractional retries',
      () => tool({ ...basics, sideEffect: 'none', retries: 0.5 }),
      /expected retries.*got 0\.5/,
    ],
    ['a name with a dot', () => tool({ ...basics, name: 'a.b' }), /letters, digits.*"a\.b"/],
    ['an empty name', () => tool({ ...basics, name: '' }), /got ""/],
    ['a name of 65 characters', () => tool({ ...basics, name: 'x'.repeat(65) }), /1 to 64/],
    ['a timeout of 0', () => tool({ ...basics, timeoutMs: 0 }), /timeoutMs above 0.*got 0/],
    ['a timeout timers cannot hold', () => tool({ ...basics, timeoutMs: 2 ** 31 }), /got 2147483648/],
    ['an expiry of 0', () => tool({ ...basics, approval: { required: true, expiresInMs: 0 } }), /approval/],
    [
      'a union at the top level',
      () => tool({ ...basics, input: z.union([z.object({}), z.object({})]) }),
      /type "object" at the top level, got a schema with anyOf and no type.*z\.object/,
    ],
    [
      'a client tool that prepares',
      () => tool({ name: 'pay', description: '', input: z.object({}), prepare: () => 1 }),
      /"pay": prepare needs a run/,
    ],
    ['a bare string', () => tool({ ...basics, input: z.string() }), /got type "string"/],
    [
      'a type that JSON does not have',
      () => tool({ ...basics, input: z.object({ at: z.date() }) }),
      /Date cannot be represented.*`inputSchema`/,
    ],
  ];
  for (const [what, define, message] of refused) {
    it(what, () => {
      const error = errorOf(define);
      expect(error.code).toBe('agent-invalid');
      expect(error.message).toMatch(message);
    });
  }

  it('retries are allowed when a second execution is safe', () => {
    expect(tool({ ...basics, sideEffect: 'idempotent', retries: 2, timeoutMs: 5 })).toMatchObject({
      sideEffect: 'idempotent',
      retries: 2,
      timeoutMs: 5,
    });
  });
});

describe('approval', () => {
  it('can be a constant', async () => {
    const approval = { required: true, reason: 'money', expiresInMs: 1000 };
    expect(await tool({ ...basics, approval: true }).approval(call({}))).toBe(true);
    expect(await tool({ ...basics, approval }).approval(call({}))).toEqual(approval);
  });

  it('as a function receives the call with its validated input', async () => {
    const input = z.object({ cents: z.string().transform(Number) });
    const refund = tool({
      ...basics,
      input,
      approval: async seen => ({
        required: seen.input.cents > 100,
        reason: `${seen.name} ${seen.callId} ${seen.runId}`,
      }),
    });
    expect(await refund.approval(call({ cents: '101' }))).toEqual({
      required: true,
      reason: 'refund call-1 run-1',
    });
    expect(await refund.approval(call({ cents: '100' }))).toMatchObject({ required: false });
  });

  it('rejects when the function returns nothing', async () => {
    const forgetful = (): boolean => JSON.parse('null');
    const refund = tool({ ...basics, approval: forgetful });
    await expect(refund.approval(call({ orderId: 'A', cents: 1 }))).rejects.toThrow(
      /return a boolean or \{ required.*got null/,
    );
  });

  it('rejects when the input is invalid', async () => {
    const refund = tool({ ...basics, approval: () => false });
    await expect(refund.approval(call({ cents: 1 }))).rejects.toThrow(/orderId: expected string/);
  });
});

describe('the output schema', () => {
  const output = z.object({ total: z.number().transform(n => `${n} cents`) });

  it('transforms the return value into the result', async () => {
    const sum = tool({ ...basics, output, run: ({ cents }) => ({ total: cents }) });
    expect(await sum.run?.({ orderId: 'A', cents: 3 }, createContext())).toEqual({ total: '3 cents' });
  });

  it('refuses a wrong return value by its path, and states that the tool has run', async () => {
    const wrong: { total: number } = JSON.parse('{"total":"many"}');
    const sum = tool({ ...basics, output, run: () => wrong });
    await expect(sum.run?.({ orderId: 'A', cents: 3 }, createContext())).rejects.toThrow(
      '"refund" ran, but its return value does not match its output schema: total: expected number, received string',
    );
  });
});

describe('types', () => {
  it('follow the schema', () => {
    const made = tool({
      name: 'typed',
      description: '',
      input: z.object({ day: z.string().transform(day => new Date(day)), n: z.number().default(1) }),
      output: z.object({ at: z.string().transform(Number) }),
      approval: seen => {
        expectTypeOf(seen).toEqualTypeOf<ApprovalCall<{ day: Date; n: number }>>();
        return { required: true };
      },
      reconcile: (seen, context) => {
        expectTypeOf(seen.input).toEqualTypeOf<{ day: Date; n: number }>();
        expectTypeOf(context).toEqualTypeOf<ToolCallContext>();
        return { unknown: true };
      },
      run: (input, context) => {
        expectTypeOf(input).toEqualTypeOf<{ day: Date; n: number }>();
        expectTypeOf(context).toEqualTypeOf<ToolRunContext<unknown, undefined>>();
        return { at: '1' };
      },
    });
    type Made = Tool<'typed', { day: string; n?: number | undefined }, { at: number }>;
    expectTypeOf(made).toEqualTypeOf<Made & { readonly '~answer'?: { at: string } }>();

    tool({
      name: 'typed',
      description: '',
      input: handWritten(),
      inputSchema: { type: 'object' },
      run: input => expectTypeOf(input).toEqualTypeOf<{ n: number }>(),
    });
    // @ts-expect-error the output schema wants a string
    tool({ ...basics, output: z.object({ at: z.string() }), run: () => ({ at: 1 }) });
    // @ts-expect-error there is no such side effect
    expect(() => tool({ ...basics, sideEffect: 'twice' })).toThrow(/sideEffect/);
    // @ts-expect-error an input must be a Standard Schema
    expect(() => tool({ ...basics, input: { type: 'object' } })).toThrow(/Standard Schema/);
  });
});
