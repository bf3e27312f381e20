import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Store } from '../../../protocol/store.ts';
import type { SideEffect } from '../../../protocol/tool.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

describe('E2: intent before effect', () => {
  test.each<SideEffect>(['idempotent', 'once'])(
    'tool.started and its key are durable before a %s tool is called',
    async sideEffect => {
      const store = memory();
      const seen: { key: string; started: RunEvent | undefined }[] = [];
      const agent = createAgent({
        name: 'a',
        host: new ManualHost(),
        store,
        model: scripted([calls('act', 'act'), { text: 'done' }]),
        tools: [
          makeTool('act', {
            sideEffect,
            run: async (_, { key, runId, callId }) => {
              const events = await eventsOf(store, runId);
              const started = events.find(event => event.type === 'tool.started' && event.callId === callId);
              seen.push({ key, started });
            },
          }),
        ],
      });
      await agent.run('go');
      expect(seen).toHaveLength(2);
      for (const { key, started } of seen)
        expect(started).toMatchObject({ type: 'tool.started', attempt: 1, key });
      expect(new Set(seen.map(({ key }) => key)).size).toBe(2);
    },
  );

  /** An agent whose lease ends on the monotonic clock between the start of its payment and the end of its renewal. */
  function makeSleeper(beforeRenewal: (store: Store, host: ManualHost) => unknown) {
    const host = new ManualHost();
    const touched: string[] = [];
    const inner = memory();
    let slept = false;
    const store = watchStore(inner, {
      before: async method => {
        if (method !== 'renew' || slept) return;
        slept = true;
        host.jump(11_000);
        await beforeRenewal(inner, host);
      },
      afterAppend: (_, events) => {
        if (!slept && events.some(({ type }) => type === 'tool.started')) host.jump(6_000);
      },
    });
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('pay'), { text: 'done' }]),
      tools: [makeTool('pay', { run: (_, { callId }) => touched.push(callId) })],
    });
    return { host, agent, touched, hasSlept: () => slept };
  }

  test('a tool is not called after the lease expired and another process had it, and its call is in doubt', async () => {
    const owner = { id: 'other', host: 'elsewhere', pid: 1, startedAt: '' };
    const { host, agent, touched, hasSlept } = makeSleeper((store, clock) =>
      store.claim('run', { owner, now: clock.now(), leaseMs: 1, isDead: () => false }),
    );
    const run = await agent.start('go', { runId: 'run' });
    const settled = await host.settle(run.settled());
    expect(hasSlept()).toBe(true);
    expect(touched).toEqual([]);
    expect(settled).toMatchObject({ status: 'waiting', doubts: [{ callId: 'call_0_0' }] });
    expect(await run.resolve('call_0_0', { retry: true })).toEqual({ accepted: true });
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(touched).toEqual(['call_0_0']);
  });

  test('a tool is called, in no doubt, once a lease that expired is renewed before another process takes it', async () => {
    const { host, agent, touched, hasSlept } = makeSleeper(() => {});
    const run = await agent.start('go');
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(hasSlept()).toBe(true);
    expect(touched).toEqual(['call_0_0']);
  });

  test('moving the wall clock forward does not end a lease', async () => {
    const host = new ManualHost();
    const touched: string[] = [];
    const store = watchStore(memory(), {
      afterAppend: (_, events) => {
        if (events.some(({ type }) => type === 'tool.started')) host.setWallClock(host.now() + 3_600_000);
      },
    });
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('pay'), { text: 'done' }]),
      tools: [makeTool('pay', { run: (_, { callId }) => touched.push(callId) })],
    });
    expect((await host.settle(agent.run('go'))).status).toBe('finished');
    expect(touched).toEqual(['call_0_0']);
  });

  test.each<SideEffect>(['none', 'idempotent', 'once'])(
    'a %s tool is not called after its run began to be cancelled, at any moment',
    async sideEffect => {
      const wasAborted: boolean[] = [];
      const run = (_: unknown, { signal }: { signal: AbortSignal }) => void wasAborted.push(signal.aborted);
      for (let moment = 0; moment < 120; moment += 1) {
        const inner = scripted([calls('act', 'act'), { text: 'done' }]);
        const answered = Promise.withResolvers<void>();
        const agent = createAgent({
          name: 'a',
          stream: false,
          model: {
            ...inner,
            async generate(request, options) {
              const turn = await inner.generate(request, options);
              answered.resolve();
              return turn;
            },
          },
          tools: [makeTool('act', { sideEffect, run })],
        });
        const started = await agent.start('go');
        await answered.promise;
        for (let passed = 0; passed < moment; passed += 1) await undefined;
        await started.cancel();
      }
      expect(wasAborted).toContain(false);
      expect(wasAborted).not.toContain(true);
    },
  );

  test('every attempt of a call has the same key', async () => {
    const store = memory();
    const keys: string[] = [];
    const host = new ManualHost();
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('put'), { text: 'done' }]),
      tools: [
        makeTool('put', {
          sideEffect: 'idempotent',
          retries: 2,
          run: (_, { key }) => {
            keys.push(key);
            if (keys.length < 3) throw new Error('busy');
            return 'ok';
          },
        }),
      ],
    });
    const run = await agent.start('go');
    await host.settle(run.settled());
    expect(keys).toHaveLength(3);
    expect(new Set(keys).size).toBe(1);
    const started = (await eventsOf(store, run.id)).filter(event => event.type === 'tool.started');
    expect(started.map(event => event.type === 'tool.started' && [event.attempt, event.key])).toEqual(
      [1, 2, 3].map(attempt => [attempt, keys[0]]),
    );
  });
});
