import { afterEach, describe, expect, test } from 'vitest';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { Gateway } from '../../support/responses/gateway.ts';

const A = { authorization: 'Bearer the-token-of-a-00000' };
const B = { authorization: 'Bearer the-token-of-b-00000' };
const used = (inputTokens: number, outputTokens: number): ScriptedTurn => ({
  text: 'Done.',
  usage: { inputTokens, outputTokens },
});
/** A model call that is still in progress when the next request comes. */
const SLOW: ScriptedTurn = { text: 'Slow.', delayMs: 500 };

const open: Gateway[] = [];
afterEach(async () => {
  for (const gateway of open.splice(0)) await gateway.close();
});

type Options = {
  limits?: JsonObject;
  server?: JsonObject;
  prices?: JsonObject;
  host?: ManualHost;
  store?: Store;
};

/** Client A has limits, client B has none. */
function makeGateway({ limits = {}, server, prices, host = new ManualHost(), store = memory() }: Options) {
  const turns = Array.from({ length: 20 }, () => used(60, 40));
  const gateway = new Gateway(
    { fast: turns, slow: Array(20).fill(SLOW), silent: Array(20).fill({ text: 'x'.repeat(400) }) },
    {
      host,
      store,
      config: folder => ({
        tokens: {
          a: { token: 'the-token-of-a-00000', role: 'client', limits },
          b: { token: 'the-token-of-b-00000', role: 'client' },
        },
        ...(server && { limits: server }),
        ...(prices && { prices: { [folder.models.fast ?? '']: prices } }),
      }),
    },
  );
  open.push(gateway);
  const send = async (headers: Record<string, string>, model = 'fast', more: object = {}) =>
    await host.settle(gateway.send('POST', '', { model, input: 'go', ...more }, headers));
  return { gateway, host, store, send };
}

/** The other protocols, and their form of an exceeded limit. */
const OTHER_PATHS: [path: string, error: JsonObject][] = [
  ['/v1/chat/completions', { error: { code: 'rate_limit_exceeded' } }],
  ['/v1/messages', { type: 'error', error: { type: 'rate_limit_error' } }],
];

/** A request of client A to another path than that of the Responses API. */
async function chatOn(gateway: Gateway, path: string, more: JsonObject = {}): Promise<Response> {
  const body = { model: 'fast', max_tokens: 10, messages: [{ role: 'user', content: 'go' }], ...more };
  return await gateway.send('POST', `/../..${path}`, body, A);
}

async function errorOf(response: Response) {
  const { error } = (await response.json()) as { error: JsonObject };
  return { status: response.status, retryAfter: response.headers.get('retry-after'), ...error };
}

describe('runs in progress', () => {
  test('are limited per token: the next request gets 429 with retry-after, and may retry later', async () => {
    const { gateway, host, send } = makeGateway({ limits: { concurrent_runs: 2 } });
    const body = { model: 'slow', input: 'go' };
    const first = [gateway.send('POST', '', body, A), gateway.send('POST', '', body, A)];
    await host.idle();
    const refused = await gateway.send('POST', '', body, A);
    expect(refused.headers.get('x-should-retry')).toBeNull();
    expect(await errorOf(refused)).toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
      type: 'rate_limit_error',
      retryAfter: '2',
    });
    expect((await send(B)).status).toBe(200);
    await Promise.all(first);
    expect((await send(A)).status).toBe(200);
  });

  test('are limited for the whole server, regardless of the sender', async () => {
    const { gateway, host } = makeGateway({ server: { concurrent_runs: 1 } });
    const first = gateway.send('POST', '', { model: 'slow', input: 'go' }, A);
    await host.idle();
    expect(await errorOf(await gateway.send('POST', '', { model: 'fast', input: 'go' }, B))).toMatchObject({
      status: 429,
      message: expect.stringContaining('busy'),
    });
    await first;
  });

  test.each(OTHER_PATHS)('are limited for %s too, streamed or not', async (path, expected) => {
    const { gateway, host } = makeGateway({ limits: { concurrent_runs: 1 } });
    const first = chatOn(gateway, path, { model: 'slow' });
    await host.idle();
    for (const stream of [false, true]) {
      const refused = await chatOn(gateway, path, { stream });
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '2']);
      expect(refused.headers.get('x-should-retry')).toBeNull();
      expect(await refused.json()).toMatchObject(expected);
    }
    expect((await host.settle(first)).status).toBe(200);
    expect((await host.settle(chatOn(gateway, path))).status).toBe(200);
  });

  test('do not count when they were refused, failed or wait', async () => {
    const { send } = makeGateway({ limits: { concurrent_runs: 1 } });
    expect((await send(A, 'none')).status).toBe(400);
    expect((await send(A, 'fast', { previous_response_id: 'resp_none' })).status).toBe(400);
    for (let times = 0; times < 3; times += 1) expect((await send(A)).status).toBe(200);
  });
});

describe('tokens', () => {
  test('per minute: a request after too many waits until they are a minute old', async () => {
    const { host, send } = makeGateway({ limits: { tokens_per_minute: 150 } });
    expect((await send(A)).status).toBe(200);
    await host.advance(20_000);
    expect((await send(A)).status).toBe(200);
    expect(await errorOf(await send(A))).toMatchObject({ status: 429, retryAfter: '40' });
    expect((await send(B)).status).toBe(200);
    await host.advance(40_000);
    expect((await send(A)).status).toBe(200);
  });

  test('per day: until midnight UTC', async () => {
    const host = new ManualHost({ now: Date.UTC(2026, 5, 1, 23, 0) });
    const { send } = makeGateway({ host, limits: { tokens_per_day: 100 } });
    expect((await send(A)).status).toBe(200);
    expect(await errorOf(await send(A))).toMatchObject({ status: 429, retryAfter: '3600' });
    await host.advance(3_600_000);
    expect((await send(A)).status).toBe(200);
  });

  test('per day survive a restart: they are read from the journals', async () => {
    const host = new ManualHost({ now: Date.UTC(2026, 5, 1, 12, 0) });
    const limits = { tokens_per_day: 250 };
    const { send, store } = makeGateway({ host, limits });
    await send(A);
    await send(A);
    await send(B);
    await host.advance(1_000);
    const after = makeGateway({ host, limits, store });
    expect((await after.send(A)).status).toBe(200);
    expect((await after.send(A)).status).toBe(429);
    await host.advance(12 * 3_600_000);
    const tomorrow = makeGateway({ host, limits, store });
    expect((await tomorrow.send(A)).status).toBe(200);
  });

  test('of a model that does not say what it used are estimated, also after a restart', async () => {
    const host = new ManualHost({ now: Date.UTC(2026, 5, 1, 12, 0) });
    const limits = { tokens_per_day: 100 };
    const { send, store } = makeGateway({ host, limits });
    expect(await (await send(A, 'silent')).json()).toMatchObject({ usage: null });
    expect((await send(A, 'silent')).status).toBe(429);
    await host.advance(1_000);
    const after = makeGateway({ host, limits, store });
    expect((await after.send(A, 'silent')).status).toBe(429);
    expect((await after.send(B, 'silent')).status).toBe(200);
  });

  test.each(OTHER_PATHS)('count for %s too, whose errors have their own form', async (path, expected) => {
    const { gateway, host, send } = makeGateway({ limits: { tokens_per_day: 100 } });
    expect((await send(A)).status).toBe(200);
    const answer = await host.settle(chatOn(gateway, path));
    expect(answer.status).toBe(429);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await answer.json()).toMatchObject(expected);
  });

  test('of continued, forked and recovered responses count once', async () => {
    const host = new ManualHost({ now: Date.UTC(2026, 5, 1, 12, 0) });
    const { send, store } = makeGateway({ host });
    const one = (await (await send(A)).json()) as { id: string };
    for (let times = 0; times < 2; times += 1)
      expect((await send(A, 'fast', { previous_response_id: one.id })).status).toBe(200);
    await host.advance(1_000);
    const exactly = makeGateway({ host, store, limits: { tokens_per_day: 301 } });
    expect((await exactly.send(A)).status).toBe(200);
    expect((await exactly.send(A)).status).toBe(429);
  });
});

describe('dollars per day', () => {
  const prices = { input: 10_000, output: 100_000 };

  test('are the prices of the configuration times the usage of the journals', async () => {
    const host = new ManualHost();
    const limits = { spend_per_day_usd: 9 };
    const { send, store } = makeGateway({ host, limits, prices });
    expect((await send(A)).status).toBe(200);
    await host.advance(1_000);
    const after = makeGateway({ host, limits, prices, store });
    expect((await after.send(A)).status).toBe(200);
    expect((await after.send(A)).status).toBe(200);
    expect(await errorOf(await after.send(A))).toMatchObject({
      status: 429,
      message: expect.stringContaining('9 US dollars per day'),
    });
    expect((await after.send(B)).status).toBe(200);
  });

  test('refuse a model without a price, because it would cost nothing', async () => {
    const { send } = makeGateway({ limits: { spend_per_day_usd: 9 }, prices });
    expect(await errorOf(await send(A, 'slow'))).toMatchObject({ status: 403, code: 'forbidden' });
  });
});

describe('the size of a request', () => {
  test('is limited in bytes and items', async () => {
    const { send } = makeGateway({ server: { body_bytes: 1_024, input_items: 2 } });
    const large = await send(A, 'fast', { instructions: 'x'.repeat(2_000) });
    expect(await errorOf(large)).toMatchObject({ status: 413, code: 'too_large' });
    const input = Array(3).fill({ role: 'user', content: 'Hi' });
    expect(await errorOf(await send(A, 'fast', { input }))).toMatchObject({
      status: 400,
      code: 'too_many_items',
    });
    expect((await send(A, 'fast', { input: input.slice(1) })).status).toBe(200);
  });
});
