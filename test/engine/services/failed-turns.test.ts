import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { type AgentOptions, defineAgent } from '../../../agent/agent-options.ts';
import { EngineError } from '../../../protocol/error.ts';
import type { Usage } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { countEvents, eventsOf } from '../../support/engine/agents.ts';
import { answerWith, recordRequests } from '../../support/engine/models.ts';

async function play(options: Partial<AgentOptions>) {
  const host = new ManualHost();
  const store = memory();
  const run = await createAgent({ name: 'a', host, store, ...options }).start('go');
  const settled = await host.settle(run.settled());
  return { host, store, run, settled };
}

describe('a failed turn', () => {
  test('is retried after the wait that the provider requested', async () => {
    const model = scripted([
      { error: { code: 'rate-limit', retryAfterMs: 90_000, times: 1 } },
      { text: 'done' },
    ]);
    const { settled, store, run } = await play({ model });
    expect(settled).toMatchObject({ status: 'finished', text: 'done', turns: 1 });
    const events = await eventsOf(store, run.id);
    const [failed, fired] = ['turn.failed', 'timer.fired'].map(type =>
      events.find(event => event.type === type),
    );
    expect((fired?.at ?? 0) - (failed?.at ?? 0)).toBe(90_000);
    expect(failed).toMatchObject({ retryable: true, error: { code: 'rate-limit', provider: 'scripted' } });
  });

  test('waits exponentially longer, with jitter of up to half, up to the maximum', async () => {
    const model = scripted([{ error: { code: 'server' } }]);
    const { store, run } = await play({ model, retry: { attempts: 6, baseMs: 100, maxMs: 400 } });
    const waits = (await eventsOf(store, run.id)).flatMap(event =>
      event.type === 'turn.failed' ? [(event.retryAt ?? 0) - event.at] : [],
    );
    const bounds = [100, 200, 400, 400, 400, 400];
    expect(waits).toHaveLength(6);
    for (const [index, wait] of waits.entries()) {
      const most = bounds[index] ?? 0;
      expect(wait).toBeGreaterThanOrEqual(most / 2);
      expect(wait).toBeLessThanOrEqual(most);
    }
    expect(new Set(waits).size).toBeGreaterThan(3);
  });

  test('switches to the next model after its last attempt, for the rest of the run', async () => {
    const broken = recordRequests(scripted([{ error: { code: 'overloaded' } }]));
    const good = recordRequests(answerWith(() => ({ text: 'from the second' })));
    const { settled, run } = await play({
      model: [broken.model, good.model],
      retry: { attempts: 2, baseMs: 1 },
    });
    expect(settled).toMatchObject({ status: 'finished', text: 'from the second' });
    expect([broken.requests.length, good.requests.length]).toEqual([2, 1]);
    const { image } = run.snapshot() as { image: { state: { context: { turn: object } } } };
    expect(image.state.context.turn).toMatchObject({ number: 1, attempt: 1, model: 1 });
  });

  test('switches to the next model immediately when it is not retryable', async () => {
    const broken = recordRequests(scripted([{ error: { code: 'authentication' } }]));
    const { settled, store, run } = await play({
      model: [broken.model, answerWith(() => ({ text: 'done' }))],
    });
    expect(settled.status).toBe('finished');
    expect(broken.requests).toHaveLength(1);
    expect(await countEvents(store, run.id, 'timer.fired')).toBe(0);
  });

  test('fails the run with the last error when no model is left', async () => {
    const { settled } = await play({
      model: [
        scripted([{ error: { code: 'overloaded', message: 'first is busy' } }]),
        scripted([{ error: { code: 'server', message: 'second is broken' } }]),
      ],
      retry: { attempts: 1 },
    });
    expect(settled).toMatchObject({
      status: 'failed',
      error: { code: 'server', message: 'second is broken' },
    });
  });

  test('with finish reason error is retried, and is not an answer', async () => {
    const { settled, store, run } = await play({
      model: answerWith((_, before) =>
        before === 0 ? { text: 'internal error', finishReason: 'error' } : { text: 'done' },
      ),
    });
    expect(settled).toMatchObject({ status: 'finished', text: 'done' });
    expect(await countEvents(store, run.id, 'turn.failed')).toBe(1);
  });

  test('whose stream ended without a turn is retried', async () => {
    const good = scripted([{ text: 'done' }]);
    let streams = 0;
    const { settled } = await play({
      model: {
        ...good,
        async *stream(request, options) {
          streams += 1;
          if (streams > 1) yield* good.stream(request, options);
        },
      },
    });
    expect(settled).toMatchObject({ status: 'finished', text: 'done' });
    expect(streams).toBe(2);
  });

  test('that the journal cannot hold is retried, then fails the run', async () => {
    const usage = { inputTokens: 1 } as Usage;
    const model = answerWith((_, before) =>
      before === 0 ? { usage } : { toolCalls: [{ callId: '', name: 'a' }] },
    );
    const { settled } = await play({ model, retry: { attempts: 2 } });
    expect(settled).toMatchObject({
      status: 'failed',
      error: { code: 'malformed-stream', message: expect.stringContaining('callId') },
    });
  });

  test('whose process lacks a key rejects, and a configured process continues the run', async () => {
    const store = memory();
    const host = new ManualHost();
    const missing = answerWith(() => {
      throw new EngineError('key-missing', 'Set OPENAI_API_KEY.');
    });
    const run = await createAgent({ name: 'a', host, store, model: missing }).start('go');
    await expect(host.settle(run.settled())).rejects.toMatchObject({ code: 'key-missing' });
    for (const stream of [run.events(), run.text()]) {
      const reading = (async () => {
        for await (const _ of stream);
      })();
      await expect(host.settle(reading)).rejects.toMatchObject({ code: 'key-missing' });
    }
    const agent = createAgent({ name: 'a', host, store, model: answerWith(() => ({ text: 'done' })) });
    const later = await agent.open(run.id);
    expect(await host.settle(later.settled())).toMatchObject({ status: 'finished', text: 'done' });
  });

  test('refuses an invalid number of attempts', () => {
    for (const attempts of [0, -1, 1.5, Number.NaN]) {
      expect(() => defineAgent({ name: 'a', retry: { attempts } })).toThrow(/attempts/);
    }
  });
});
