import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { tool } from '../../../agent/index.ts';
import { makeGate } from '../../support/engine/agents.ts';
import { DONE, errorOf, makeApp } from '../../support/server/runs-app.ts';

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
