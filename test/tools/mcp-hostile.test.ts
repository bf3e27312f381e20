import { afterEach, describe, expect, it, vi } from 'vitest';
import { InDoubt } from '../../protocol/error.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { checkSchema } from '../../protocol/schemas/check-json.ts';
import { type McpOptions, type McpToolSource, mcp } from '../../tools/mcp.ts';
import { createContext, findTool, rejectionOf, runTool } from '../support/tools/call-context.ts';
import {
  discovered,
  type HostileOptions,
  hostileServer,
  nested,
  textResult,
  toolWith,
} from '../support/tools/hostile-server.ts';

const OBJECT = { type: 'object' };
const opened: McpToolSource[] = [];

function connect(server: HostileOptions, options: Partial<McpOptions> = {}) {
  const source = mcp({ ...hostileServer(server), ...options });
  opened.push(source);
  return source.connect();
}

async function validate(schema: JsonValue, input: JsonValue) {
  const tools = await connect({ tools: toolWith(schema) });
  return findTool(tools, 'act').validate(input);
}

afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(opened.splice(0).map(source => source.close()));
});

describe('a hostile list of tools', () => {
  it.each([
    ['an input schema', toolWith(`{"type":"object","properties":${nested(5_000)}}`)],
    ['a deeper input schema', toolWith(`{"type":"object","properties":${nested(100_000)}}`)],
    ['an output schema', toolWith(OBJECT, `,"outputSchema":{"type":"object","properties":${nested(5_000)}}`)],
    ['annotations', toolWith(OBJECT, `,"annotations":{"title":"t","x":${nested(5_000)}}`)],
  ])('connects, and its tool runs, when %s is nested thousands of levels deep', async (_what, tools) => {
    expect(await runTool(await connect({ tools }), 'act')).toBe('done');
    expect(await runTool(await connect({ tools, discover: discovered() }), 'act')).toBe('done');
  });

  it.each([
    ['capabilities', discovered(`{"tools":{},"experimental":{"x":${nested(5_000)}}}`)],
    ['no capabilities', discovered('7')],
    ['an error with deep data', `"error":{"code":-32022,"message":"no","data":${nested(5_000)}}`],
    ['a deep result', `"result":${nested(100_000)}`],
    ['nothing', '"result":null'],
  ])(
    'connects as an earlier client, or fails by name, when the revisions are told with %s',
    async (_what, discover) => {
      const connected = await connect({ tools: toolWith(OBJECT), discover }).catch(error => error);
      if (connected instanceof Error) expect(connected).toMatchObject({ code: 'tool-source-failed' });
      else expect(await runTool(connected, 'act')).toBe('done');
    },
  );

  it.each(['-1', '0'])('is used for a minute when its ttlMs is %s', async ttlMs => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const tools = `${toolWith(OBJECT)},"ttlMs":${ttlMs},"cacheScope":"public"`;
    const source = mcp(hostileServer({ tools, discover: discovered() }));
    opened.push(source);
    await source.connect();
    expect(source.isStale).toBe(false);
    vi.setSystemTime(Date.now() + 61_000);
    expect(source.isStale).toBe(true);
  });

  it('of a server that speaks only later revisions is not asked for, and the error names them', async () => {
    const server = { tools: toolWith(OBJECT), discover: discovered('{}', ['2027-05-05']) };
    const refusal = `"error":{"code":-32022,"message":"no","data":{"supported":["2027-05-05"],"requested":"2026-07-28"}}`;
    const refused = await rejectionOf(connect({ ...server, discover: refusal }));
    expect(refused).toMatchObject({ code: 'tool-source-failed' });
    expect(String(refused)).toContain('it speaks MCP 2027-05-05, and this client 2026-07-28 and earlier');
  });

  it('is not used for more than a day, whatever its ttlMs is', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    const tools = `${toolWith(OBJECT)},"ttlMs":9007199254740991,"cacheScope":"public"`;
    const source = mcp(hostileServer({ tools, discover: discovered() }));
    opened.push(source);
    await source.connect();
    vi.setSystemTime(Date.now() + 25 * 3_600_000);
    expect(source.isStale).toBe(true);
  });

  it.each(['"soon"', '0.5', '1e999', 'null'])('is refused when its ttlMs is %s', async ttlMs => {
    const tools = `${toolWith(OBJECT)},"ttlMs":${ttlMs}`;
    expect(await rejectionOf(connect({ tools, discover: discovered() }))).toMatchObject({
      code: 'tool-source-failed',
      message: expect.stringContaining('ttlMs'),
    });
  });

  it('reports that the arguments were not validated when a schema is nested too deep', async () => {
    const tools = await connect({ tools: toolWith(`{"type":"object","properties":${nested(5_000)}}`) });
    const act = findTool(tools, 'act');
    expect(act.inputSchema).toEqual({ type: 'object' });
    expect(await act.validate({})).toMatchObject({
      valid: true,
      unchecked: expect.stringContaining('the schema is too deep or too long'),
    });
  });

  it.each([
    ['the input', toolWith({ type: 'object', $ref: '#' })],
    ['a property', toolWith({ type: 'object', properties: { a: { $ref: '#/properties/a' } } })],
    ['the output', toolWith(OBJECT, ',"outputSchema":{"type":"object","$ref":"#"}')],
  ])('runs its tool when the schema of %s refers to itself', async (_what, tools) => {
    const answer = { tools, call: '"result":{"content":[],"structuredContent":{"a":1}}' };
    expect(await runTool(await connect(answer), 'act', { a: 1 })).toEqual({ a: 1 });
  });

  it('has names that are too long shortened to unique ones, and its tools run', async () => {
    const long = 'look_up_the_order_of_a_customer_by_the_number_that_is_printed_on_its_label';
    const names = ['act', `${long}_1`, `${long}_2`, 'x'.repeat(10_000)];
    const tools = await connect({
      tools: JSON.stringify(names.map(name => ({ name, inputSchema: OBJECT }))),
    });
    const given = tools.map(({ name }) => name);
    expect(new Set(given).size).toBe(4);
    for (const name of given) {
      expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
      expect(await runTool(tools, name)).toBe('done');
    }
    expect(given[1]).toMatch(/^look_up_the_order_of_a_customer_by_the_number_that_is_p\w*_[0-9a-f]{8}$/);
    expect(tools.map(({ origin }) => origin?.tool.name)).toEqual(names);
  });

  it('is refused with an error of its own when there are too many tools for a model', async () => {
    const tools = Array.from({ length: 1_001 }, (_, index) => ({ name: `t${index}`, inputSchema: OBJECT }));
    expect(await rejectionOf(connect({ tools: JSON.stringify(tools) }))).toMatchObject({
      code: 'tool-source-failed',
      message: expect.stringContaining('1001 tools'),
    });
  });
});

describe('a schema that requires endless work', () => {
  it('has its patterns matched in linear time', async () => {
    const schema = { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } };
    expect(await validate(schema, { a: `${'a'.repeat(50_000)}!` })).toEqual({
      valid: false,
      message: 'a: must match pattern "^(a+)+$"',
    });
    expect(await validate(schema, { a: 'aaa' })).toEqual({ valid: true, value: { a: 'aaa' } });
  });

  it('has the patterns of its property names matched in linear time', async () => {
    const schema = {
      type: 'object',
      patternProperties: { '^(x+)+$': { type: 'integer' } },
      additionalProperties: false,
    };
    expect(await validate(schema, { [`${'x'.repeat(50_000)}!`]: 1 })).toMatchObject({ valid: false });
    expect(await validate(schema, { xx: 1.5 })).toEqual({ valid: false, message: 'xx: must be integer' });
    expect(await validate(schema, { xx: 1 })).toMatchObject({ valid: true });
  });

  it.each(['(?=b)c', '(a)\\1', 'x{5000}', '(', 'a'.repeat(501)])(
    'leaves a pattern that has no linear form to the server, and names it: %s',
    async pattern => {
      const validation = await validate({ type: 'object', properties: { a: { pattern } } }, { a: 'zz' });
      expect(validation).toMatchObject({ valid: true, unchecked: expect.stringContaining('the pattern') });
    },
  );

  it('does not fail because of parts that cannot be checked', async () => {
    const odd = { pattern: '(?=b)c' };
    const schema = { type: 'object', properties: { a: { oneOf: [odd, { const: 1 }] }, b: { not: odd } } };
    expect(await validate(schema, { a: 'x', b: 'y' })).toMatchObject({ valid: true });
    expect(await validate({ ...schema, required: ['c'] }, {})).toEqual({
      valid: false,
      message: "must have required property 'c'",
    });
  });

  const doubling = Object.fromEntries(
    Array.from({ length: 60 }, (_, at) => [
      `d${at}`,
      at === 59 ? {} : { allOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
    ]),
  );
  const twice = (name: string) => ({ properties: { a: { $ref: '#' } }, required: [name] });
  it.each<[string, JsonValue, JsonValue]>([
    ['references that double', { type: 'object', $ref: '#/$defs/d0', $defs: doubling }, {}],
    [
      'alternatives at every level',
      { type: 'object', anyOf: [twice('b'), twice('c')] },
      JSON.parse(nested(100, '{}')),
    ],
    [
      'many large patterns',
      {
        type: 'object',
        properties: Object.fromEntries(
          Array.from({ length: 2_000 }, (_, at) => [`p${at}`, { pattern: `^.{1,900}x${at}$` }]),
        ),
      },
      Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`p${at}`, `${'a'.repeat(50)}x${at}`])),
    ],
  ])('is abandoned, and left to the server: %s', async (_what, schema, input) => {
    expect(await validate(schema, input)).toMatchObject({
      valid: true,
      unchecked: expect.stringContaining('left to the server'),
    });
  });

  it('follows the keywords of the specification', async () => {
    const schema = {
      type: 'object',
      properties: {
        n: { type: ['integer', 'null'], minimum: 1, exclusiveMaximum: 5, multipleOf: 0.5 },
        s: { minLength: 2, maxLength: 3 },
        list: {
          prefixItems: [{ const: 'x' }],
          items: { type: 'boolean' },
          uniqueItems: true,
          contains: true,
        },
        pick: { enum: ['a', { b: [1] }] },
      },
      dependentRequired: { n: ['s'] },
      if: { required: ['pick'] },
      else: { required: ['list'] },
      propertyNames: { maxLength: 4 },
      maxProperties: 4,
    };
    expect(await validate(schema, { n: 3, s: '🦊🦊', list: ['x', true], pick: { b: [1] } })).toMatchObject({
      valid: true,
    });
    const wrong = { n: 5.2, s: 'a', list: ['y', 1, 1], pick: 'c', extra: 0 };
    expect(await validate(schema, wrong)).toEqual({
      valid: false,
      message: [
        'must NOT have more than 4 properties',
        'n: must be integer,null',
        'n: must be < 5',
        'n: must be multiple of 0.5',
        's: must NOT have fewer than 2 characters',
        'list.0: must be "x"',
        'list.1: must be boolean',
        'list.2: must be boolean',
        'list: must NOT have duplicate items',
        'pick: must be one of ["a",{"b":[1]}]',
        'and 1 more',
      ].join(', '),
    });
  });

  it('accepts names of Object.prototype as property names', () => {
    const schema = JSON.parse(
      '{"properties":{"__proto__":{"type":"string"}},"required":["__proto__","toString"]}',
    );
    const problemsOf = (value: string) => checkSchema(schema, JSON.parse(value), () => null).problems;
    expect(problemsOf('{}')).toEqual([
      "must have required property '__proto__'",
      "must have required property 'toString'",
    ]);
    expect(problemsOf('{"__proto__":1,"toString":2}')).toEqual(['__proto__: must be string']);
  });

  it('counts lone surrogates as characters', async () => {
    const schema = { type: 'object', properties: { a: { maxLength: 1, pattern: '^.$', const: '\ud800' } } };
    expect(await validate(schema, { a: '\ud800' })).toMatchObject({ valid: true });
  });
});

describe('a hostile answer', () => {
  it.each([5_000, 100_000])('is an error for the model when it is nested %i levels deep', async levels => {
    const call = `"result":{"content":[],"structuredContent":${nested(levels)}}`;
    expect(await rejectionOf(runTool(await connect({ tools: toolWith(OBJECT), call }), 'act'))).toMatchObject(
      {
        name: 'Error',
        message:
          '"act" ran, but its result cannot be recorded: the value is nested more than 200 levels deep',
      },
    );
  });

  it.each([
    ['letters', 'a'],
    ['URLs', 'a://'],
    ['keys', 'sk-'],
  ])('is shown in full when its error is a million characters of %s', async (_what, unit) => {
    const text = unit.repeat(1_000_000 / unit.length);
    const call = textResult(JSON.stringify(`${text} at http://me:pw@db`), true);
    const error = await rejectionOf(runTool(await connect({ tools: toolWith(OBJECT), call }), 'act'));
    expect(String(error)).toBe(`Error: ${text} at http://***@db`);
  });

  it('is truncated when it is a protocol error', async () => {
    const call = `"error":{"code":-32000,"message":${JSON.stringify('a'.repeat(1_000_000))}}`;
    const error = await rejectionOf(runTool(await connect({ tools: toolWith(OBJECT), call }), 'act'));
    expect(String(error).length).toBeLessThan(5_000);
  });

  it('does not show part of a secret where it is truncated', async () => {
    const secret = 'tok-0123456789-secret';
    const call = `"error":{"code":-32000,"message":${JSON.stringify(`${'x'.repeat(290)}${secret}`)}}`;
    const tools = await connect({ tools: toolWith(OBJECT), call }, {
      headers: { 'X-Key': secret },
    } as object);
    expect(String(await rejectionOf(runTool(tools, 'act')))).not.toContain('tok-');
  });
});

describe('a call whose server reports progress forever', () => {
  function dripping({ params }: { params?: { _meta?: { progressToken?: number } } }): Response {
    const progressToken = params?._meta?.progressToken;
    const encoder = new TextEncoder();
    let progress = 0;
    let timer: NodeJS.Timeout;
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        timer = setInterval(() => {
          progress += 1;
          const message = {
            jsonrpc: '2.0',
            method: 'notifications/progress',
            params: { progressToken, progress },
          };
          controller.enqueue(encoder.encode(`data: ${JSON.stringify(message)}\n\n`));
        }, 300);
      },
      cancel: () => clearInterval(timer),
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  }

  it.each([
    ['the default of 30 minutes', {}, 1_800_000],
    ['the given limit', { totalTimeoutMs: 5_000 }, 5_000],
  ])('ends in doubt after %s', async (_what, options, limitMs) => {
    const tools = await connect({ tools: toolWith(OBJECT), onCall: dripping }, options);
    vi.useFakeTimers();
    const reports: number[] = [];
    const context = { ...createContext(), progress: () => reports.push(1) };
    const failed = rejectionOf(runTool(tools, 'act', {}, context));
    await vi.advanceTimersByTimeAsync(limitMs - 1_000);
    const before = reports.length;
    await vi.advanceTimersByTimeAsync(1_001);
    const error = await failed;
    expect(before).toBeGreaterThan(5);
    expect(error).toBeInstanceOf(InDoubt);
    expect(String(error)).toContain(`no response within ${limitMs} ms (totalTimeoutMs)`);
  });
});
