import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { CallOptions } from '../../../protocol/adapter.ts';
import type { ModelRequest, TurnDelta } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeGate, makeTool, wordsOf } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

const LEFT = { by: 'gateway', reason: 'The client left.', afterCalls: true } as const;

/** An agent whose model asks for two calls, one after the other. The first waits for `gate`. */
function makeDesk({ store = memory(), name = 'one' } = {}) {
  const host = new ManualHost({ name: `${name}_` });
  const gate = makeGate<string>();
  const begun: string[] = [];
  let aborted = false;
  const model = scripted([calls('slow', 'second'), { text: 'done' }]);
  let modelCalls = 0;
  const agent = createAgent({
    name: 'a',
    host,
    store,
    toolConcurrency: 1,
    model: {
      ...model,
      stream(...given: Parameters<typeof model.stream>) {
        modelCalls += 1;
        return model.stream(...given);
      },
    },
    tools: [
      makeTool('slow', {
        run: (_, { signal }) => {
          begun.push('slow');
          signal.addEventListener('abort', () => {
            aborted = true;
          });
          return gate.promise;
        },
      }),
      makeTool('second', { run: () => void begun.push('second') }),
    ],
  });
  return {
    ...{ host, gate, begun, agent, store },
    get aborted() {
      return aborted;
    },
    get modelCalls() {
      return modelCalls;
    },
  };
}

async function busy(desk = makeDesk()) {
  const run = await desk.agent.start('go');
  await desk.host.idle();
  return { desk, run };
}

describe('a run that is cancelled after its calls', () => {
  test('keeps the result of the call that has started, and begins no other and no model call', async () => {
    const { desk, run } = await busy();
    const cancelled = run.cancel(LEFT);
    await desk.host.advance(60_000);
    expect(desk.aborted).toBe(false);
    desk.gate.open('seen');
    expect(await desk.host.settle(cancelled)).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({ status: 'cancelled', unsettled: [{ name: 'second' }] });
    expect((await wordsOf(desk.store, run.id)).slice(-2)).toEqual(['tool.settled call_0_0', 'run.cancelled']);
    expect([desk.begun, desk.modelCalls]).toEqual([['slow'], 1]);
  });

  test('aborts a model call at once', async () => {
    const store = memory();
    const host = new ManualHost();
    let signal: AbortSignal | undefined;
    const model = { ...scripted([]), stream: hang };
    const agent = createAgent({ name: 'a', store, host, model });
    const run = await agent.start('go');
    await host.idle();
    await host.settle(run.cancel(LEFT));
    expect(signal?.aborted).toBe(true);
    expect((await wordsOf(store, run.id)).at(-1)).toBe('run.cancelled');

    async function* hang(_: ModelRequest, options: CallOptions): AsyncGenerator<TurnDelta> {
      signal = options.signal;
      await new Promise((_, reject) => options.signal.addEventListener('abort', reject));
    }
  });

  test('is ended without its call by a cancellation that does not wait', async () => {
    const { desk, run } = await busy();
    const waiting = run.cancel(LEFT);
    await desk.host.advance(1_000);
    const hurried = run.cancel({ by: 'ann' });
    await desk.host.advance(10_000);
    await Promise.all([waiting, hurried]);
    expect(desk.aborted).toBe(true);
    expect(await run.settled()).toMatchObject({ status: 'cancelled' });
  });

  test('is ended without a call that takes more than half an hour', async () => {
    const { desk, run } = await busy();
    const cancelled = run.cancel(LEFT);
    await desk.host.advance(29 * 60_000);
    expect(desk.aborted).toBe(false);
    await desk.host.advance(2 * 60_000);
    await cancelled;
    expect(desk.aborted).toBe(true);
    expect((await wordsOf(desk.store, run.id)).at(-1)).toBe('run.cancelled');
  });

  test('waits for its calls too if another process asks for it', async () => {
    const { desk, run } = await busy();
    const other = makeDesk({ store: watchStore(desk.store, {}), name: 'two' });
    const opened = await other.agent.open(run.id);
    expect(await opened.cancel(LEFT)).toEqual({ accepted: true });
    await desk.host.advance(60_000);
    expect(desk.aborted).toBe(false);
    desk.gate.open('seen');
    expect(await desk.host.settle(run.settled())).toMatchObject({ status: 'cancelled' });
    expect((await wordsOf(desk.store, run.id)).slice(-3)).toEqual([
      'cancel.requested',
      'tool.settled call_0_0',
      'run.cancelled',
    ]);
  });

  test('is given up in time by a process that stops', async () => {
    const { desk, run } = await busy();
    void run.cancel(LEFT);
    await desk.host.advance(100);
    const yielded = run.yield({ graceMs: 1_000 });
    await desk.host.advance(1_100);
    await yielded;
    expect(await desk.store.get(run.id)).not.toHaveProperty('owner');
  });
});
