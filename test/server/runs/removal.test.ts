import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { tool } from '../../../agent/index.ts';
import { makeGate } from '../../support/engine/agents.ts';
import { EventReader } from '../../support/server/event-reader.ts';
import { DONE, errorOf, makeApp, type SentEvent } from '../../support/server/runs-app.ts';

describe('DELETE /runs/ID', () => {
  test('removes a resting run, which is unknown afterwards', async () => {
    const { send, begin, store } = makeApp();
    const { runId } = await begin();
    const deleted = await send('DELETE', `/runs/${runId}`);
    expect([deleted.status, await deleted.text()]).toEqual([204, '']);
    expect((await store.list({ limit: 1000 })).runs).toEqual([]);
    for (const [method, path, body] of [
      ['GET', `/runs/${runId}`],
      ['GET', `/runs/${runId}/events`],
      ['DELETE', `/runs/${runId}`],
      ['POST', `/runs/${runId}/approve`, { callId: 'call_0_0' }],
    ] as const)
      expect(await errorOf(await send(method, path, body))).toMatchObject({
        status: 404,
        code: 'run-unknown',
      });
    expect((await store.list({ limit: 1000 })).runs).toEqual([]);
  });

  test('returns 409 while the run is driven, and the run continues', async () => {
    const gate = makeGate();
    const wait = tool({ name: 'wait', description: 'Waits.', input: z.object({}), run: () => gate.promise });
    const { send, rest } = makeApp({
      turns: [{ toolCalls: [{ name: 'wait' }] }, DONE],
      agent: { tools: [wait] },
    });
    const { runId } = (await (await send('POST', '/runs', { input: 'go' })).json()) as { runId: string };
    const refused = await errorOf(await send('DELETE', `/runs/${runId}`));
    expect(refused).toMatchObject({ status: 409, code: 'refused' });
    gate.open();
    expect(await rest(runId)).toMatchObject({ status: 'finished', answer: 'Done.' });
  });

  test('returns 409 for a run that another run continues', async () => {
    const { send, begin, store } = makeApp({ turns: [DONE, DONE] });
    const { runId } = await begin();
    await begin({ input: 'more', continues: runId });
    expect(await errorOf(await send('DELETE', `/runs/${runId}`))).toMatchObject({ status: 409 });
    expect((await store.list({ limit: 1000 })).runs).toHaveLength(2);
  });

  test('requires the token, as every route that writes', async () => {
    const { send } = makeApp({ token: 'secret' });
    expect((await send('DELETE', '/runs/any')).status).toBe(401);
    const headers = { authorization: 'Bearer secret' };
    expect((await send('DELETE', '/runs/any', undefined, headers)).status).toBe(404);
  });
});

describe('DELETE /runs?label=', () => {
  test('removes all runs with the labels, also one that this server drives, and tells the page', async () => {
    let waits = false;
    const begun = makeGate();
    const wait = tool({
      name: 'wait',
      description: 'Waits.',
      input: z.object({}),
      sideEffect: 'none',
      run: async (_, { signal }) => {
        if (!waits) return;
        begun.open();
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      },
    });
    const turns = [{ toolCalls: [{ name: 'wait' }] }, DONE];
    const { send, begin, store } = makeApp({ turns, agent: { tools: [wait] } });
    const labels = { user: '7' };
    const { runId: ended } = await begin({ input: 'go', labels });
    await begin({ input: 'go', labels: { user: '8' } });
    waits = true;
    const started = await send('POST', '/runs', { input: 'go', labels: { ...labels, tenant: 'a' } });
    const { runId: driven } = (await started.json()) as { runId: string };
    await begun.promise;
    const events = new EventReader(await send('GET', '/events?summaries=1'));
    await events.until(found => found.some(({ event }) => event === 'ready'));
    const deleted = await send('DELETE', '/runs?label=user%3D7');
    expect(deleted.status).toBe(200);
    const answer = (await deleted.json()) as { deleted: string[] };
    expect(answer.deleted.toSorted()).toEqual([ended, driven].toSorted());
    expect((await store.list()).runs).toMatchObject([{ labels: { user: '8' } }]);
    const removedIn = (found: readonly SentEvent[]) => found.filter(({ event }) => event === 'removed');
    const removed = removedIn(await events.until(found => removedIn(found).length === 2));
    expect(removed.map(({ data }) => String(data.runId)).toSorted()).toEqual([ended, driven].toSorted());
    await events.close();
    expect(await (await send('DELETE', '/runs?label=user%3D7')).json()).toEqual({ deleted: [] });
  }, 20_000);

  test('needs a label, and an operator who sees the runs', async () => {
    const tokens = {
      viewer: { token: 'a'.repeat(32), role: 'viewer' },
      tenant: { token: 'b'.repeat(32), role: 'operator', labels: { tenant: 'a' } },
      all: { token: 'c'.repeat(32), role: 'operator' },
    } as const;
    const { send, store } = makeApp({ tokens, turns: [DONE, DONE] });
    const as = (who: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[who].token}` });
    for (const tenant of ['a', 'b'])
      await send('POST', '/runs', { input: 'go', labels: { tenant, user: '7' } }, as('all'));
    const remove = async (who: keyof typeof tokens, query: string) =>
      (await send('DELETE', `/runs${query}`, undefined, as(who))).status;
    expect(await remove('all', '')).toBe(400);
    expect(await remove('viewer', '?label=user%3D7')).toBe(403);
    expect(await remove('tenant', '?label=tenant%3Db')).toBe(403);
    expect((await store.list()).runs).toHaveLength(2);
    expect(await remove('tenant', '?label=user%3D7')).toBe(200);
    expect((await store.list()).runs).toMatchObject([{ labels: { tenant: 'b' } }]);
  });
});
