import { expect, it } from 'vitest';
import type { Totals } from '../../../protocol/listing/totals.ts';
import { makeApp } from '../../support/server/runs-app.ts';

it('a token with labels reads and decides only runs that have them; a token without sees all', async () => {
  const tokens = {
    ann: { token: 'the-token-of-ann-0000000', role: 'approver', labels: { tenant: 'a' } },
    bert: { token: 'the-token-of-bert-000000', role: 'approver', labels: { tenant: 'b' } },
    boss: { token: 'the-token-of-boss-000000', role: 'operator' },
  } as const;
  const as = (name: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[name].token}` });
  const server = makeApp({ tokens });
  const started = await server.send('POST', '/runs', { input: 'go', labels: { tenant: 'a' } }, as('boss'));
  const { runId } = (await started.json()) as { runId: string };
  const status = async (name: keyof typeof tokens) =>
    (await server.send('GET', `/runs/${runId}`, undefined, as(name))).status;
  expect([await status('ann'), await status('bert'), await status('boss')]).toEqual([200, 404, 200]);
  const sums = async (name: keyof typeof tokens) =>
    (await (
      await server.send('GET', '/totals?by=agent&by=label:tenant', undefined, as(name))
    ).json()) as Totals;
  expect((await sums('ann')).rows).toMatchObject([{ label: 'a', runs: 1 }]);
  expect((await sums('bert')).rows).toEqual([]);
  const folded = async (name: keyof typeof tokens) =>
    (await server.send('GET', `/folded?run=${runId}`, undefined, as(name))).json();
  expect(await folded('ann')).toEqual({ rows: [{ runId, subAgents: 0 }] });
  expect(await folded('bert')).toEqual({ rows: [] });
  const refused = await server.send('POST', `/runs/${runId}/reject`, { callId: 'c' }, as('bert'));
  expect(refused.status).toBe(404);
});
