import { createOpenAI } from '@ai-sdk/openai';
import { describe, expect, it } from 'vitest';
import { aiSdk, refuseRedirects } from '../../../adapters/ai-sdk.ts';
import { startReplayServer } from '../../../adapters/conformance.ts';
import { ollama } from '../../../adapters/ollama.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { subjects, throughClients } from '../../support/adapters/fixtures/subjects.ts';
import { calling, collect, rejection, request } from '../../support/adapters/requests.ts';

const KEY = 'redirect-test-key-0123456789';
const WIDE = { apiKey: KEY, maxResponseBytes: 1_000_000, idleTimeoutMs: 60_000 };
type Open = (baseURL: string) => ModelAdapter;

const adapters: Record<string, Open> = {
  ...Object.fromEntries(
    Object.entries({ ...subjects, ...throughClients })
      .filter(([name]) => name !== 'aiSdk')
      .map(([name, { open }]): [string, Open] => [name, baseURL => open({ ...WIDE, baseURL })]),
  ),
  'aiSdk, whose model refuses redirects': baseURL =>
    aiSdk(createOpenAI({ baseURL, apiKey: KEY, fetch: refuseRedirects() }).chat('model-1'), {
      secrets: [KEY],
    }),
};

describe.each(Object.entries(adapters))('%s', (_name, open) => {
  it.each([301, 302, 303, 307, 308])('sends nothing to the target of a %i, streamed or not', async status => {
    await using other = await startReplayServer();
    await using server = await startReplayServer();
    const location = `${other.baseURL}/taken?key=${KEY}`;
    server.answer({ status, headers: { location }, chunks: [] });
    const adapter = open(server.baseURL);
    const calls = [
      () => adapter.generate(request('a secret'), calling()),
      () => collect(adapter.stream(request('a secret'), calling())),
    ];
    for (const call of calls) {
      const error = await rejection(call());
      expect(other.requests).toEqual([]);
      expect(error).toMatchObject({ name: 'ProviderError', code: 'redirect-refused', retryable: false });
      expect(String(error)).toContain(`HTTP ${status}`);
      expect(String(error)).toContain(`${other.baseURL}/taken. It was not followed`);
      expect(String(error)).not.toContain(KEY);
    }
    expect(server.requests).toHaveLength(2);
  });
});

describe('a redirect', () => {
  it('is not followed within the same origin either, so that the base URL is the address that is used', async () => {
    await using server = await startReplayServer();
    server.answer({ status: 308, headers: { location: '/elsewhere' }, chunks: [] });
    const adapter = ollama({ model: 'm', baseURL: server.baseURL });
    const error = await rejection(adapter.generate(request('hi'), calling()));
    expect(error).toMatchObject({ code: 'redirect-refused', status: 308 });
    expect(server.requests).toHaveLength(1);
  });

  it('that a custom fetch has followed is rejected', async () => {
    await using other = await startReplayServer();
    await using server = await startReplayServer();
    server.answer({ status: 307, headers: { location: `${other.baseURL}/x` }, chunks: [] });
    other.answer({ headers: { 'content-type': 'application/json' }, chunks: ['{}'] });
    const following: typeof fetch = (input, init) => fetch(input, { ...init, redirect: 'follow' });
    const adapter = ollama({ model: 'm', baseURL: server.baseURL, fetch: following });
    expect(await rejection(adapter.generate(request('hi'), calling()))).toMatchObject({
      code: 'redirect-refused',
      message: expect.stringContaining(`${other.baseURL}/x`),
    });
  });
});
