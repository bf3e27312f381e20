import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import type { Store } from '../../../protocol/store.ts';
import { begin, receive } from '../../../stores/conformance/check.ts';
import { storeChecks } from '../../../stores/conformance.ts';
import { postgres } from '../../../stores/postgres.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { sampled } from '../../support/sample.ts';
import { PGBOUNCER, startPooler } from '../../support/stores/pooler.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../../support/stores/postgres-server.ts';
import { storesIn } from '../../support/stores/stores-under-test.ts';

describe.skipIf(POSTGRES_BIN === undefined || PGBOUNCER === undefined)(
  'PgBouncer that pools transactions',
  () => {
    let server: PostgresServer;
    let pooler: { url: string; stop(): Promise<void> };
    beforeAll(async () => {
      server = await startPostgres();
      pooler = await startPooler(server.url);
    });
    afterAll(async () => {
      await pooler.stop();
      await server.stop();
    });

    describe('serves a store that listens on a direct connection', () => {
      const stores = storesIn(() => ({ url: pooler.url, listen: server.url }));
      for (const { name, run } of sampled(storeChecks(stores), 12)) test(name, run);
    });

    test('passes no notifications: the store says so, and looks for changes and work itself', async () => {
      const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
      const [store, other] = [postgres(pooler.url), postgres(pooler.url)];
      await store.create(begin('a'));
      const told = { run: 0, work: 0 };
      const ends = [store.watch?.('a', () => told.run++), store.watchWork?.(() => told.work++)];
      await expect.poll(() => warn.mock.calls.length).toBe(1);
      expect(warn.mock.calls[0]?.[0]).toContain('AGENTCHART_DB_LISTEN');
      await expect.poll(() => told.work).toBeGreaterThan(0);
      const before = told.run;
      await other.append('a', { after: 1, input: true }, [receive('x')], { status: 'running' });
      await expect.poll(() => told.run).toBeGreaterThan(before);
      for (const end of ends) end?.();
      await store.close();
      await other.close();
      warn.mockRestore();
    });

    test('lets a run be driven on one side and decided on the other', async () => {
      const model = () => scripted([calls('pay'), { text: 'done' }]);
      const [one, two] = [1, 2].map(() => postgres(pooler.url, { schema: 'decided', listen: server.url }));
      const make = (store: Store | undefined) =>
        createAgent({
          name: 'payer',
          model: model(),
          tools: [makeTool('pay', { approval: true })],
          ...(store && { store }),
        });
      const run = await make(one).start('Pay.');
      const settled = await run.settled();
      const [open] = settled.status === 'waiting' ? settled.approvals : [];
      const decided = await make(two).open(run.id);
      expect(await decided.approve(open?.callId ?? '')).toEqual({ accepted: true });
      expect((await decided.settled()).status).toBe('finished');
      await one?.close();
      await two?.close();
    });
  },
);
