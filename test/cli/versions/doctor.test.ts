import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { chartIdentity } from '../../../machines/snapshot.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { begin } from '../../../stores/conformance/check.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { AGENT, calling, Desk, LIBRARY, REFUND } from '../../support/cli/desk.ts';

const SCRIPT = [{ text: 'Let me see.', ...calling(REFUND) }, { text: 'Done.' }];

type Line = { type: string; runId?: string; reason: string; advice: string; [name: string]: unknown };

async function examine(desk: Desk, ...args: string[]) {
  const { code, stdout, stderr } = await desk.run(['doctor', '--json', ...args]);
  const lines: Line[] = stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line));
  return { code, stderr, lines, found: lines.slice(1, -1), summary: lines.at(-1) };
}

/** A run of agent `desk` with another chart or version of the agent. */
async function add(
  { store: file }: Desk,
  runId: string,
  { chart = 0, version }: { chart?: number; version?: string },
): Promise<void> {
  const store = sqlite(file);
  const identity = chartIdentity();
  await store.create(
    begin(runId, {
      agent: { name: 'desk', ...omitUndefined({ version }) },
      chart: chart === 0 ? identity : { version: identity.version + chart, hash: 'other' },
    }),
  );
  await store.close();
}

describe.concurrent('doctor', () => {
  test('finds nothing in a store of this release with its agent, and exits 0', async () => {
    const desk = new Desk(SCRIPT);
    await desk.begin();
    const { code, lines } = await examine(desk, '--agent', AGENT);
    expect([code, lines]).toEqual([
      0,
      [
        expect.objectContaining({ type: 'store', reachable: true, migrates: false }),
        {
          type: 'summary',
          runs: 1,
          stranded: 0,
          inDoubt: 0,
          deadOwners: 0,
          damaged: 0,
          agents: ['desk'],
        },
      ],
    ]);
    const { code: same, stdout } = await desk.run(['doctor']);
    expect([same, stdout]).toEqual([0, expect.stringContaining('1 run has not ended: 0 stranded')]);
  });

  test('lists runs of older and newer charts, until they are migrated', async () => {
    const desk = new Desk(SCRIPT);
    await desk.begin();
    await add(desk, 'older', { chart: -1 });
    await add(desk, 'newer', { chart: 1 });
    const { code, found, summary } = await examine(desk);
    const of = (id: string) => found.find(({ runId, type }) => runId === id && type === 'stranded');
    expect([code, summary]).toEqual([1, expect.objectContaining({ runs: 3, stranded: 2 })]);
    expect(of('older')).toMatchObject({
      reason: expect.stringContaining('older than'),
      advice: expect.stringContaining('agentchart migrate older'),
    });
    expect(of('newer')?.advice).toMatch(/^Keep a worker .*until the run ends/);
    expect((await desk.run(['migrate', 'older', '--agent', AGENT])).code).toBe(0);
    const after = await examine(desk);
    expect(after.found.map(({ runId }) => runId)).toEqual(['newer']);
  });

  test('lists runs of agents and versions that the deploy does not have', async () => {
    const desk = new Desk(SCRIPT);
    await desk.begin();
    await add(desk, 'first', { version: '1' });
    await add(desk, 'second', { version: '2' });
    const agent = (options: string) =>
      `import { createAgent } from '${LIBRARY}';\nexport default createAgent({ ${options} });\n`;
    const other = desk.write('other.ts', agent("name: 'other'"));
    const second = desk.write('second.ts', agent("name: 'desk', version: '2'"));
    const migrating = desk.write(
      'migrating.ts',
      agent(
        "name: 'desk', version: '2', migrations: [{ from: { agent: '1' }, to: { agent: '2' }, migrate: events => events }]",
      ),
    );
    expect((await examine(desk)).code).toBe(0);
    const strange = await examine(desk, '--agent', other);
    expect([strange.code, strange.summary?.stranded]).toEqual([1, 3]);
    expect(strange.found[0]?.reason).toBe('the deploy has no agent "desk"');
    const old = await examine(desk, '--agent', second);
    expect(old.found).toEqual([
      expect.objectContaining({
        runId: 'first',
        reason: expect.stringContaining('version 1'),
        agentVersion: '1',
      }),
    ]);
    expect(old.found[0]?.advice).toMatch(/^Keep a worker with version 1/);
    const { found } = await examine(desk, '--agent', other, '--agent', migrating);
    expect(found.map(({ advice }) => advice)).toEqual([
      expect.stringContaining('Migrate it with `agentchart migrate first`'),
    ]);
  });

  test('tells runs that workers of the deploy will migrate from stranded ones', async () => {
    const desk = new Desk(SCRIPT);
    const { runId: waiting } = await desk.begin();
    await add(desk, 'running', { chart: -1 });
    await add(desk, 'newer', { chart: 1 });
    const db = new DatabaseSync(desk.store);
    db.exec(
      `UPDATE runs SET chart_version = chart_version - 1, chart_hash = 'other' WHERE run_id = '${waiting}'`,
    );
    db.close();
    const { code, found, summary } = await examine(desk, '--agent', AGENT);
    expect(Object.fromEntries(found.map(({ runId, type }) => [runId, type]))).toEqual({
      running: 'migrates',
      newer: 'stranded',
      [waiting]: 'migrates',
    });
    expect([code, summary]).toEqual([1, expect.objectContaining({ stranded: 1, migrates: 2 })]);
  });

  test('lists runs in doubt and leases of dead owners, which strand nothing', async () => {
    const desk = new Desk([calling('charge')]);
    const { runId } = await desk.begin();
    const store = sqlite(desk.store);
    const owner = { id: 'gone', host: 'elsewhere', pid: 77, startedAt: '1' };
    await store.create(begin('left', { agent: { name: 'desk' }, chart: chartIdentity() }), {
      owner,
      now: Date.now() - 60_000,
      leaseMs: 1_000,
      isDead: () => false,
    });
    await store.close();
    const { code, found } = await examine(desk, '--agent', AGENT);
    expect([code, found.map(({ type, runId: id }) => [type, id])]).toEqual([
      0,
      [
        ['dead-owner', 'left'],
        ['in-doubt', runId],
      ],
    ]);
    expect(found[0]?.reason).toContain('process 77 on elsewhere');
  });

  test('exits 1 without a stack for a database that it cannot use, 2 for an agent that does not load', async () => {
    const desk = new Desk(SCRIPT);
    const text = desk.write('text.db', 'no database, however long this text may be'.repeat(40));
    for (const db of ['missing.db', text, 'postgres://nobody@127.0.0.1:1/none']) {
      const { code, stderr, lines } = await examine(desk, '--db', db);
      expect([code, lines]).toEqual([1, [expect.objectContaining({ type: 'store', reachable: false })]]);
      expect(stderr).not.toMatch(/\n {2,}at /);
    }
    expect((await desk.run(['doctor', '--agent', 'missing.ts'])).code).toBe(2);
    expect((await desk.run(['doctor', '--unknown'])).code).toBe(2);
  });
});
