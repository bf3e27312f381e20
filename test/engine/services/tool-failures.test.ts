import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { InDoubt } from '../../../protocol/error.ts';
import type { SideEffect } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, countEvents, eventsOf, makeGate, makeTool } from '../../support/engine/agents.ts';
import { callOnce, hang } from '../../support/engine/call-once.ts';

describe('a tool that throws', () => {
  test.each<SideEffect>(['none', 'idempotent', 'once'])(
    'returns its message to the model (%s)',
    async sideEffect => {
      const fail = makeTool('act', {
        sideEffect,
        run: () => {
          throw new Error('the printer is on fire');
        },
      });
      const { result, read } = await callOnce(fail);
      expect(result).toMatchObject({ isError: true, output: 'the printer is on fire' });
      expect(read).toBe('the printer is on fire');
    },
  );

  test('a value that is not an error returns its text to the model', async () => {
    const { read } = await callOnce(makeTool('act', { run: () => Promise.reject('just text') }));
    expect(read).toBe('just text');
  });

  test('InDoubt leaves a once call in doubt, with its message as the reason', async () => {
    const unsure = makeTool('act', {
      run: () => {
        throw new InDoubt('the bank did not answer');
      },
    });
    const { settled, run, host } = await callOnce(unsure);
    expect(settled).toMatchObject({ doubts: [{ callId: 'call_0_0', reason: 'the bank did not answer' }] });
    await run.resolve('call_0_0', { failed: 'it did not happen' });
    expect(await host.settle(run.settled())).toMatchObject({
      results: [{ output: 'it did not happen', isError: true }],
    });
  });

  test('is retried with doubling waits, up to its number of retries', async () => {
    const at: number[] = [];
    const host = new ManualHost();
    const flaky = makeTool('act', {
      sideEffect: 'idempotent',
      retries: 2,
      run: () => {
        at.push(host.now());
        throw new Error('busy');
      },
    });
    const model = scripted([calls('act'), { text: 'done' }]);
    const settled = await host.settle(createAgent({ name: 'a', host, model, tools: [flaky] }).run('go'));
    expect(settled).toMatchObject({ results: [{ output: 'busy', isError: true }] });
    expect(at.map(time => time - (at[0] ?? 0))).toEqual([0, 500, 1500]);
  });
});

describe('a tool that times out', () => {
  test.each<SideEffect>(['none', 'idempotent'])('returns an error to the model (%s)', async sideEffect => {
    const { read, result } = await callOnce(makeTool('act', { sideEffect, timeoutMs: 2_000, run: hang }));
    expect(read).toBe('The tool did not answer within 2000 ms.');
    expect(result?.isError).toBe(true);
  });

  test('leaves a once call in doubt', async () => {
    const { settled } = await callOnce(makeTool('act', { timeoutMs: 2_000, run: hang }));
    expect(settled).toMatchObject({
      doubts: [{ callId: 'call_0_0', reason: 'The tool did not answer within 2000 ms.' }],
    });
  });

  test('receives an abort signal', async () => {
    const stopped = makeGate<string>();
    const slow = makeTool('act', {
      sideEffect: 'none',
      timeoutMs: 100,
      run: (_, { signal }) => {
        signal.addEventListener('abort', () => stopped.open(String(signal.reason)));
        return hang();
      },
    });
    await callOnce(slow);
    expect(await stopped.promise).toContain('100 ms');
  });

  test('is retried when it is safe and has retries', async () => {
    let attempts = 0;
    const { read, store, run } = await callOnce(
      makeTool('act', {
        sideEffect: 'none',
        retries: 1,
        timeoutMs: 100,
        run: () => {
          attempts += 1;
          return attempts === 1 ? hang() : 'at last';
        },
      }),
    );
    expect(read).toBe('at last');
    expect(await countEvents(store, run.id, 'tool.started')).toBe(2);
  });
});

describe('the return value of a tool', () => {
  const circle: { self?: object } = {};
  circle.self = circle;
  test.each<[string, unknown, unknown, boolean]>([
    ['undefined', undefined, null, false],
    ['a date', new Date(0), expect.stringContaining('date.toISOString()'), true],
    ['a date inside', { at: new Date(0) }, { at: '1970-01-01T00:00:00.000Z' }, false],
    ['a URL inside', { at: new URL('https://x.test/') }, { at: 'https://x.test/' }, false],
    ['a Response', new Response('ok'), expect.stringContaining('await response.json()'), true],
    [
      'a Response inside',
      { page: [new Response('ok')] },
      expect.stringContaining('"page.0" is a Response'),
      true,
    ],
    ['a Set inside', { tags: new Set() }, expect.stringContaining('[...set]'), true],
    ['an Error', new RangeError('no'), expect.stringContaining('Throw it'), true],
    [
      'a class instance',
      new (class Order {
        #id = 1;
        id = () => this.#id;
      })(),
      expect.stringContaining('is an Order. Return a plain object'),
      true,
    ],
    ['a buffer', Buffer.from('png'), expect.stringMatching(/return content\(\[/i), true],
    ['a stream', new ReadableStream(), expect.stringContaining('context.progress()'), true],
    ['an object of another realm', runInNewContext('({ a: [1, { b: 2 }] })'), { a: [1, { b: 2 }] }, false],
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 }), { a: 1 }, false],
    ['a BigInt', 10n, expect.stringContaining('BigInt'), true],
    ['a BigInt inside', { n: [1n] }, expect.stringContaining('could not be recorded'), true],
    ['a cycle', circle, expect.stringContaining('The tool ran, but its result'), true],
    ['a Map', new Map([['a', 1]]), expect.stringContaining('Map'), true],
    ['a function', () => 1, expect.stringContaining('function'), true],
    ['undefined inside', { a: undefined, b: 1 }, { b: 1 }, false],
    ['NaN', Number.NaN, null, false],
    ['broken Unicode', 'a\ud800b', 'a\ud800b', false],
    [
      'an object with __proto__',
      JSON.parse('{"__proto__":{"a":1}}'),
      JSON.parse('{"__proto__":{"a":1}}'),
      false,
    ],
  ])('%s becomes JSON, or an error that the model reads', async (_, returned, output, isError) => {
    const { result } = await callOnce(makeTool('act', { run: () => returned }));
    expect(result).toMatchObject({ output, isError });
  });

  test('that is too long for a model is journaled in full, and the model reads its head and its tail', async () => {
    const output = `${'a'.repeat(500_000)}${'z'.repeat(500_000)}`;
    const { result, read, store, run } = await callOnce(makeTool('act', { run: () => output }));
    expect(result?.output).toBe(output);
    expect(Buffer.byteLength(String(read))).toBeLessThanOrEqual(100_000);
    expect(read).toMatch(/^a+\n\[\d+ of 1000000 bytes were left out here\. Ask for less at a time\.\]\nz+$/);
    const settled = (await eventsOf(store, run.id)).find(({ type }) => type === 'tool.settled');
    expect(settled).toMatchObject({ output, shown: read });
  });
});

describe('a call that cannot run', () => {
  test.each([
    ['of an unknown tool', 'other', {}, 'There is no tool "other". The tools are: act.'],
    ['of an inherited name', 'constructor', {}, 'There is no tool "constructor".'],
    ['with arguments that are not JSON', 'act', '{"n":', 'The arguments are not valid'],
    ['with arguments that are not an object', 'act', '[1]', 'The arguments are not valid'],
  ])('%s has an error result that the model reads', async (_, name, input, message) => {
    const host = new ManualHost();
    let runs = 0;
    const act = makeTool('act', {
      run: () => {
        runs += 1;
      },
    });
    const agent = createAgent({
      name: 'a',
      host,
      model: scripted([{ toolCalls: [{ name, arguments: input }] }, { text: 'done' }]),
      tools: [act],
    });
    const settled = await agent.run('go');
    expect(settled).toMatchObject({
      status: 'finished',
      results: [{ isError: true, output: expect.stringContaining(message) }],
    });
    expect(runs).toBe(0);
  });

  test('because its tool was removed has an error result, also after a resolution to retry', async () => {
    const host = new ManualHost();
    const store = memory();
    const model = scripted([calls('act', 'gone'), { text: 'done' }]);
    const first = createAgent({
      name: 'a',
      host,
      store,
      model,
      tools: [makeTool('act', { timeoutMs: 10, run: hang }), makeTool('gone', { approval: true })],
    });
    const run = await first.start('go');
    await host.settle(run.settled());
    const other = createAgent({ name: 'a', host, store, model, tools: [] });
    const opened = await other.open(run.id);
    await opened.resolve('call_0_0', { retry: true, force: true });
    await opened.approve('call_0_1');
    expect(await host.settle(opened.settled())).toMatchObject({
      status: 'finished',
      results: [
        { isError: true, output: 'Not run again: The agent no longer has a tool "act".' },
        { isError: true, output: 'Not run: The agent no longer has a tool "gone".' },
      ],
    });
  });
});

describe('parallel tools', () => {
  test('run concurrently up to the limit, and their results are in call order', async () => {
    let running = 0;
    let most = 0;
    const gates = Array.from({ length: 6 }, () => makeGate<string>());
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      toolConcurrency: 3,
      model: scripted([
        calls(...gates.map((_, n): [string, { n: number }] => ['act', { n }])),
        { text: 'done' },
      ]),
      tools: [
        makeTool('act', {
          sideEffect: 'none',
          run: async input => {
            running += 1;
            most = Math.max(most, running);
            const output = await gates[Number(input.n)]?.promise;
            running -= 1;
            return output;
          },
        }),
      ],
    });
    const run = await agent.start('go');
    for (const n of [2, 1, 0, 5, 4, 3]) {
      await host.idle();
      gates[n]?.open(`result ${n}`);
    }
    const settled = await run.settled();
    expect(most).toBe(3);
    expect(settled.status === 'finished' && settled.results.map(({ output }) => output)).toEqual(
      gates.map((_, n) => `result ${n}`),
    );
  });

  test.each([0, -1, 0.5, Number.NaN])('a limit of %s is refused', toolConcurrency => {
    expect(() => createAgent({ name: 'a', toolConcurrency })).toThrow(/toolConcurrency/);
  });
});
