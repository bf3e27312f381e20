import { describe, expect, test } from 'vitest';
import { ManualHost } from '../../../testing/manual-host.ts';
import { errorOf, makeApp } from '../../support/server/runs-app.ts';

const TOKEN = 'correct-horse-battery-staple';

function makeServer() {
  const host = new ManualHost();
  const { send } = makeApp({ token: TOKEN, host });
  const answered: number[] = [];
  const signIn = async (token: string) => {
    const response = await send('POST', '/session', { token });
    answered.push(response.status);
    return response;
  };
  return { host, send, signIn, answered };
}

describe('signing in', () => {
  test('slows down after several failures: each further failure waits one second, however many arrive at once', async () => {
    const { host, signIn, answered } = makeServer();
    const all = Array.from({ length: 20 }, () => signIn('guess'));
    await host.idle();
    expect(answered).toEqual([401, 401, 401, 401, 401]);
    await host.advance(999);
    expect(answered.length).toBe(5);
    await host.advance(1);
    expect(answered.length).toBe(6);
    await host.advance(4_000);
    expect(answered.length).toBe(10);
    await host.settle(Promise.all(all));
    expect(answered.length).toBe(20);
  });

  test('is refused immediately, with retry-after, when it would wait more than thirty seconds', async () => {
    const { host, signIn, answered } = makeServer();
    const all = Array.from({ length: 36 }, () => signIn('guess'));
    await host.idle();
    expect(answered).toContain(429);
    const refused = await signIn(TOKEN);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect(refused.headers.get('set-cookie')).toBeNull();
    expect(await errorOf(refused)).toMatchObject({ status: 429, code: 'too-many-attempts' });
    await host.settle(Promise.all(all));
  });

  test('with the right token waits in line behind failures, and succeeds', async () => {
    const { host, signIn, answered } = makeServer();
    const guesses = Array.from({ length: 10 }, () => signIn('guess'));
    const mine = signIn(TOKEN);
    await host.idle();
    expect(answered).not.toContain(204);
    const response = await host.settle(mine);
    expect(response.status).toBe(204);
    expect(host.monotonic()).toBeLessThanOrEqual(6_000);
    await Promise.all(guesses);
  });

  test('is fast again some seconds after the last failure, however many there were', async () => {
    const { host, signIn } = makeServer();
    const guesses = Array.from({ length: 5_000 }, () => signIn('guess'));
    await host.settle(Promise.all(guesses));
    await host.advance(5_000);
    const before = host.monotonic();
    expect((await signIn(TOKEN)).status).toBe(204);
    expect(host.monotonic()).toBe(before);
  });

  test('with the right token is not slowed, however often', async () => {
    const { signIn, answered } = makeServer();
    for (let times = 0; times < 50; times += 1) await signIn(TOKEN);
    expect(new Set(answered)).toEqual(new Set([204]));
  });

  test('does not delay signed-in clients or programs with the token while failures wait', async () => {
    const { host, send, signIn } = makeServer();
    const cookie = (await signIn(TOKEN)).headers.get('set-cookie')?.split(';')[0] ?? '';
    const guesses = Array.from({ length: 30 }, () => signIn('guess'));
    await host.idle();
    expect((await send('GET', '/runs', undefined, { cookie })).status).toBe(200);
    expect((await send('GET', '/runs', undefined, { authorization: `Bearer ${TOKEN}` })).status).toBe(200);
    await host.settle(Promise.all(guesses));
  });
});
