import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type * as z from 'zod';
import { measureJson } from '../../../protocol/json.ts';
import { RUN_COMMANDS, sessionBody, startBody } from '../../../server/runs/commands/request-bodies.ts';
import { randomCases } from '../../support/sample.ts';
import { errorOf, makeApp } from '../../support/server/runs-app.ts';

type Target = { path: string; schema: z.ZodType; examples: object[] };

const TARGETS: Target[] = [
  {
    path: '/runs',
    schema: startBody,
    examples: [
      { agent: 'desk', input: 'go', continues: 'run_1', limits: { turns: 3, toolCalls: 0 }, stream: false },
      { input: [{ type: 'message', role: 'user', content: [{ type: 'text', text: 'go' }] }] },
    ],
  },
  { path: '/session', schema: sessionBody, examples: [{ token: 'x' }] },
  target('approve', [{ callId: 'call_0_0', input: {}, digest: 'd', by: 'ada', sticky: true }]),
  target('reject', [{ callId: 'call_0_0', reason: 'no', digest: 'd', by: 'ada', sticky: false }]),
  target('answer', [{ callId: 'call_0_0', output: null, isError: true, by: 'ada' }]),
  target('resolve', [
    { callId: 'call_0_0', retry: true },
    { callId: 'call_0_0', happened: true, output: 1, by: 'ada' },
    { callId: 'call_0_0', failed: 'why' },
  ]),
  target('send', [{ message: 'hello', by: 'ada' }]),
  target('pause', [{ by: 'ada' }]),
  target('unpause', [{ by: 'ada' }]),
  target('step', [{ by: 'ada' }]),
  target('cancel', [{ reason: 'enough', by: 'ada' }]),
  target('resume', [{}, { by: 'ada' }]),
  target('commands', [
    [
      { type: 'approve', callId: 'call_0_0', by: 'ada' },
      { type: 'resolve', callId: 'call_0_1', failed: 'why' },
      { type: 'set-params', params: { limits: { turns: 3 } } },
      { type: 'send', message: 'hello' },
      { type: 'cancel', reason: 'enough' },
    ],
  ]),
];

function target(name: keyof typeof RUN_COMMANDS, examples: Target['examples']): Target {
  return { path: `/runs/RUN/${name}`, schema: RUN_COMMANDS[name].body, examples };
}

/** An example with a member replaced, dropped or added; or any JSON at all. */
function bodiesLike({ examples }: Target): fc.Arbitrary<unknown> {
  const value = fc.jsonValue({ maxDepth: 4 });
  const changed = fc.constantFrom(...examples).chain(example => {
    const keys = [...Object.keys(example), 'surplus', '__proto__', 'constructor'];
    const edits = fc.dictionary(fc.constantFrom(...keys), fc.option(value, { nil: undefined }), {
      minKeys: 1,
    });
    return edits.map(edit => ({ ...example, ...edit }));
  });
  return fc.oneof({ weight: 4, arbitrary: changed }, { weight: 1, arbitrary: value });
}

describe.each(TARGETS)('POST $path', found => {
  test('accepts its examples', () => {
    for (const example of found.examples) expect(found.schema.safeParse(example).success).toBe(true);
  });

  test('returns 400 with the envelope for a body of wrong types, and never 500', async () => {
    const { send, begin } = makeApp();
    const { runId } = await begin();
    const path = found.path.replace('RUN', runId);
    await fc.assert(
      fc.asyncProperty(bodiesLike(found), async body => {
        const text = JSON.stringify(body);
        const response = await send('POST', path, text);
        const isValid = found.schema.safeParse(JSON.parse(text)).success;
        if (isValid) expect([200, 201, 204, 400, 404, 409]).toContain(response.status);
        else
          expect(await errorOf(response)).toMatchObject({
            status: 400,
            code: 'input-invalid',
            message: expect.stringContaining('Invalid request'),
          });
      }),
      { numRuns: randomCases(50) },
    );
  });
});

describe('an invalid body', () => {
  const bodies: [string, string, Record<string, string>, number, string][] = [
    ['no JSON', '{"input":', {}, 400, 'input-invalid'],
    ['an array', '[]', {}, 400, 'input-invalid'],
    ['an empty body', '', {}, 400, 'input-invalid'],
    [
      'a form',
      'input=go',
      { 'content-type': 'application/x-www-form-urlencoded' },
      415,
      'unsupported-media-type',
    ],
    ['text', '{"input":"go"}', { 'content-type': 'text/plain' }, 415, 'unsupported-media-type'],
    [
      'a similar content type',
      '{"input":"go"}',
      { 'content-type': 'application/jsonp' },
      415,
      'unsupported-media-type',
    ],
    ['compressed', '{"input":"go"}', { 'content-encoding': 'gzip' }, 415, 'unsupported-media-type'],
    ['nested too deep', `{"input":${'['.repeat(100_000)}${']'.repeat(100_000)}}`, {}, 400, 'input-invalid'],
    ['nested too deep and never closed', '{"a":'.repeat(150_000), {}, 400, 'input-invalid'],
    ['too many values', `{"input":[${'0,'.repeat(200_000)}0]}`, {}, 400, 'input-invalid'],
    ['too many items', `{"input":[${'0,'.repeat(5_000)}0]}`, {}, 400, 'input-invalid'],
    ['too large', `{"input":"${'x'.repeat(1024 * 1024)}"}`, {}, 413, 'too-large'],
  ];
  test.each(bodies)('%s', async (_, body, headers, status, code) => {
    const { send, store } = makeApp();
    expect(await errorOf(await send('POST', '/runs', body, headers))).toMatchObject({ status, code });
    expect((await store.list({ limit: 1000 })).runs).toEqual([]);
  });

  test('not UTF-8', async () => {
    const { app } = makeApp();
    const response = await app.request('http://127.0.0.1:4100/runs', {
      method: 'POST',
      headers: { host: '127.0.0.1:4100', 'content-type': 'application/json' },
      body: new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x7d]),
    });
    expect(await errorOf(response)).toMatchObject({ status: 400, code: 'input-invalid' });
  });

  test('is read no further than the limit if its length is not declared', async () => {
    const { app } = makeApp();
    let sent = 0;
    const body = new ReadableStream({
      pull(controller) {
        sent += 64 * 1024;
        controller.enqueue(new Uint8Array(64 * 1024).fill(0x20));
      },
    });
    const init: RequestInit & { duplex: 'half' } = {
      method: 'POST',
      body,
      duplex: 'half',
      headers: { host: 'localhost', 'content-type': 'application/json' },
    };
    const response = await app.request('http://localhost/runs', init);
    expect(await errorOf(response)).toMatchObject({ status: 413, code: 'too-large' });
    expect(sent).toBeLessThan(2 * 1024 * 1024);
  });

  test('is not quoted in the error', async () => {
    const { send } = makeApp();
    const response = await send('POST', '/session', { token: { nested: 'hunter2' } });
    expect(await response.text()).not.toContain('hunter2');
  });
});

test('measureJson counts nesting outside strings only and matches the parsed value', () => {
  const depthOf = (value: unknown): number =>
    typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
  fc.assert(
    fc.property(fc.jsonValue(), value => {
      expect(measureJson(JSON.stringify(value)).depth).toBe(depthOf(value));
    }),
  );
  expect(measureJson('"[[[\\"[[["')).toEqual({ depth: 0, commas: 0 });
});
