import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { InDoubt, messageOf } from '../../../protocol/error.ts';
import { rule } from '../../../rules/rule.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';

const fail = () => {
  throw new Error('no');
};

class Mute extends Error {
  override get message(): string {
    return fail();
  }
}

class MuteDoubt extends InDoubt {
  override get message(): string {
    return fail();
  }
}

const HOSTILE: [string, unknown][] = [
  ['an error whose message throws', new Mute()],
  ['undefined', undefined],
  ['null', null],
  ['an object whose toString throws', { toString: fail }],
  ['an object without a prototype', Object.create(null)],
  ['a proxy that throws at everything', new Proxy({}, { getPrototypeOf: fail, get: fail, has: fail })],
  ['a revoked proxy', revoked()],
  ['an error whose code throws', Object.defineProperty(new Error('x'), 'code', { get: fail })],
];

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

async function settle(options: Partial<AgentOptions>) {
  const host = new ManualHost();
  const model = scripted([calls('act'), { text: 'done' }, { text: 'done' }, { text: 'done' }]);
  const agent = createAgent({ name: 'a', host, store: memory(), model, ...options });
  const run = await agent.start('go');
  return { run, settled: await host.settle(run.settled()), host };
}

describe.each(HOSTILE)('%s', (_, thrown) => {
  const toss = () => {
    throw thrown;
  };

  test('has a readable message', () => {
    expect(messageOf(thrown)).toMatch(/./);
  });

  test.each(['none', 'once'] as const)(
    'thrown by a tool (%s) becomes the result that the model reads',
    async sideEffect => {
      const { settled } = await settle({ tools: [makeTool('act', { sideEffect, run: toss })] });
      expect(settled).toMatchObject({
        status: 'finished',
        results: [{ isError: true, output: messageOf(thrown) }],
      });
    },
  );

  test('thrown by an approval predicate requires an approval', async () => {
    const { settled } = await settle({ tools: [makeTool('act', { approval: toss })] });
    expect(settled).toMatchObject({ status: 'waiting', approvals: [{ name: 'act' }] });
  });

  test('thrown by reconcile leaves the call in doubt', async () => {
    const doubtful = () => {
      throw new InDoubt('the bank did not answer');
    };
    const { settled } = await settle({ tools: [makeTool('act', { run: doubtful, reconcile: toss })] });
    expect(settled).toMatchObject({ status: 'waiting', doubts: [{ name: 'act' }] });
  });

  test('thrown by prepareTurn or by a model fails the run', async () => {
    expect((await settle({ prepareTurn: toss })).settled).toMatchObject({ status: 'failed' });
    const model: ModelAdapter = { ...scripted([]), generate: toss, stream: toss };
    expect((await settle({ model })).settled).toMatchObject({ status: 'failed' });
  });

  test('thrown by a guardrail does not crash the run', async () => {
    const { settled } = await settle({
      model: scripted([{ text: 'one' }, { text: 'two' }, { text: 'three' }, { text: 'four' }]),
      guardrails: { answer: toss },
    });
    expect(settled.status).toMatch(/failed|finished/);
  });
});

test('an InDoubt error whose message throws leaves the call in doubt', async () => {
  const run = () => {
    throw new MuteDoubt();
  };
  const { settled } = await settle({ tools: [makeTool('act', { run })] });
  expect(settled).toMatchObject({ status: 'waiting', doubts: [{ name: 'act' }] });
});

describe('an approval predicate that returns an invalid value', () => {
  const changing = () => {
    let reads = 0;
    return {
      get required() {
        reads += 1;
        return reads > 1 ? undefined : true;
      },
    };
  };
  const given: Record<string, () => unknown> = {
    null: () => null,
    nothing: () => undefined,
    'a text': () => 'no',
    'a number': () => 0,
    'an empty object': () => ({}),
    'a text for required': () => ({ required: 'no' }),
    'an invalid time': () => ({ required: false, expiresInMs: Number.NaN }),
    'an invalid reason': () => ({ required: false, reason: 7 }),
    'an object that throws when it is read': () => new Proxy({}, { get: toss }),
    'an object that throws when it is awaited': () => Object.defineProperty({}, 'then', { get: toss }),
    'an object that changes between two reads': changing,
  };
  function toss(): never {
    throw Object.create(null);
  }

  test.each(Object.entries(given))('requires an approval: %s', async (_what, approval) => {
    const rule = () => approval() as boolean;
    for (const act of [makeTool('act', { approval: rule }), { ...makeTool('act'), approval: rule }]) {
      const { settled } = await settle({ tools: [act] });
      expect(settled).toMatchObject({ status: 'waiting', approvals: [{ name: 'act' }] });
    }
  });
});

describe('an approval function or a rule that fails', () => {
  const toss = () => {
    throw new Error('the user service is down');
  };

  async function startAs(by: string | undefined, options: Partial<AgentOptions>) {
    const host = new ManualHost();
    const model = scripted([calls('act'), { text: 'done' }]);
    const agent = createAgent({
      name: 'a',
      host,
      store: memory(),
      model,
      tools: [makeTool('act')],
      ...options,
    });
    const run = await agent.start('go', by === undefined ? {} : { by });
    return { run, host, settled: await host.settle(run.settled()) };
  }

  const failing: Record<string, Partial<AgentOptions>> = {
    'an approval function that throws': { tools: [makeTool('act', { approval: toss })] },
    'an approval function with a misspelt member': {
      tools: [makeTool('act', { approval: () => ({ required: true, nott: 'starter' }) as never })],
    },
    'a rule that throws': { rules: [rule({ name: 'r', when: toss, then: 'ask' })] },
    'a rule that would block': { rules: [rule({ name: 'r', when: toss, then: 'block' })] },
  };

  test.each(Object.entries(failing))(
    '%s is decided by others than who started the run',
    async (_, options) => {
      const { run, host, settled } = await startAs('ann', options);
      expect(settled).toMatchObject({
        status: 'waiting',
        approvals: [{ not: 'starter', excluded: ['ann'] }],
      });
      expect(await run.approve('call_0_0', { by: 'ann' })).toMatchObject({ code: 'not-allowed' });
      await run.approve('call_0_0', { by: 'mia' });
      expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
    },
  );

  test.each(Object.entries(failing))('%s is decided by anybody if nobody is known', async (_, options) => {
    const { run, host, settled } = await startAs(undefined, options);
    expect(settled).toMatchObject({ status: 'waiting' });
    await run.approve('call_0_0');
    expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
  });

  test('a rule asks whom it names', async () => {
    const then = { type: 'ask', by: 'security' } as const;
    const { settled } = await startAs('ann', { rules: [rule({ name: 'r', when: toss, then })] });
    expect(settled).toMatchObject({
      status: 'waiting',
      approvals: [{ by: ['security'], reason: 'the rule "r" failed: the user service is down' }],
    });
  });
});
