import { createOpenAI } from '@ai-sdk/openai';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { aiSdk } from '../../../adapters/ai-sdk.ts';
import { anthropic } from '../../../adapters/anthropic.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { subjects, throughClients } from '../../support/adapters/fixtures/subjects.ts';
import { calling, collect, rejection, request } from '../../support/adapters/requests.ts';

const OPTIONS = {
  apiKey: 'slow-test-key',
  baseURL: 'http://provider.invalid',
  maxResponseBytes: 1_000_000,
  idleTimeoutMs: 60_000,
};

beforeEach(() => {
  const toFake = [
    'setTimeout',
    'clearTimeout',
    'setInterval',
    'clearInterval',
    'Date',
    'performance',
  ] as const;
  vi.useFakeTimers({ toFake: [...toFake] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A `fetch` whose response sends one blank every 300 ms, forever. */
function drippingFetch(status = 200) {
  const requested = Promise.withResolvers<void>();
  const state = { closed: false };
  const answer: typeof fetch = async (_input, init) => {
    const type = String(init?.body).includes('"stream":true') ? 'text/event-stream' : 'application/json';
    let timer: NodeJS.Timeout;
    const close = () => {
      clearInterval(timer);
      state.closed = true;
    };
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        timer = setInterval(() => controller.enqueue(new Uint8Array([10])), 300);
        init?.signal?.addEventListener('abort', () => {
          if (!state.closed) controller.error(init.signal?.reason);
          close();
        });
      },
      cancel: close,
    });
    requested.resolve();
    return new Response(body, { status, headers: { 'content-type': type } });
  };
  return { fetch: answer, requested: requested.promise, state };
}

async function endsAfter(limitMs: number, open: (given: typeof fetch) => ModelAdapter) {
  for (const streamed of [true, false]) {
    const { fetch, requested, state } = drippingFetch();
    const adapter = open(fetch);
    let over = false;
    const failed = rejection(
      streamed
        ? collect(adapter.stream(request('hi'), calling()))
        : adapter.generate(request('hi'), calling()),
    ).finally(() => {
      over = true;
    });
    await requested;
    await vi.advanceTimersByTimeAsync(limitMs - 1_000);
    expect(over).toBe(false);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await failed).toMatchObject({
      code: 'timeout',
      retryable: false,
      message: expect.stringContaining(`was still answering after ${limitMs} ms`),
    });
    expect(state.closed).toBe(true);
  }
}

describe('a response that never ends, one byte every 300 ms,', () => {
  const direct = Object.entries({ ...subjects, ...throughClients }).filter(([name]) => name !== 'aiSdk');
  it.each(direct)('is aborted after 30 minutes: %s', async (_name, { open }) => {
    await endsAfter(1_800_000, fetch => open({ ...OPTIONS, fetch }));
  });

  it('is aborted after the configured limit, which the error names', async () => {
    const open = (fetch: typeof globalThis.fetch) =>
      anthropic({ ...OPTIONS, model: 'claude-sonnet-4-5', fetch, totalTimeoutMs: 5_000 });
    await endsAfter(5_000, open);
    const { fetch, requested } = drippingFetch();
    const failed = rejection(open(fetch).generate(request('hi'), calling()));
    await requested;
    await vi.advanceTimersByTimeAsync(5_001);
    expect(String(await failed)).toContain('was still answering after 5000 ms');
    expect(String(await failed)).toContain('totalTimeoutMs');
  });

  it('is aborted after the first-byte timeout if it is the body of an error', async () => {
    const { fetch, requested, state } = drippingFetch(500);
    const adapter = anthropic({ ...OPTIONS, model: 'claude-sonnet-4-5', fetch, timeoutMs: 5_000 });
    const failed = rejection(adapter.generate(request('hi'), calling()));
    await requested;
    await vi.advanceTimersByTimeAsync(5_001);
    expect(await failed).toMatchObject({ code: 'timeout' });
    expect(state.closed).toBe(true);
  });

  it('is aborted for a model of the AI SDK', async () => {
    const open = (fetch: typeof globalThis.fetch) =>
      aiSdk(createOpenAI({ ...OPTIONS, fetch }).chat('model-1'), {
        timeoutMs: 60_000,
        totalTimeoutMs: 30_000,
      });
    await endsAfter(30_000, open);
  });
});
