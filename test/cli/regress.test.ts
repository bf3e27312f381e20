import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, tool } from '../../agent/index.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import type { Store } from '../../protocol/store.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { Desk, LIBRARY } from '../support/cli/desk.ts';
import { TAKES_ALL } from '../support/sample.ts';

const ORDER = { orderId: 'A-1' };
const call = (name: string, input: object): ScriptedTurn => ({
  toolCalls: [{ name, arguments: JSON.stringify(input) }],
  delayMs: 5,
});
const LOOKUP = call('lookup', ORDER);
const REFUND = call('refund', { ...ORDER, cents: 4200 });
const TURNS = [LOOKUP, REFUND, { text: 'Done.' }];
const RUNS = 8;
const KILLS = TAKES_ALL ? 200 : 6;

/** The agent of the recorded runs. Its tools leave a file in the folder when they are executed. */
const MODULE = `
  import { appendFileSync } from 'node:fs';
  import * as z from '${import.meta.resolve('zod')}';
  import { createAgent, tool } from '${LIBRARY}';
  const touch = name => () => { appendFileSync('touched', name); return 'ran'; };
  const order = z.object({ orderId: z.string() });
  export default createAgent({
    name: 'desk',
    tools: [
      tool({ name: 'lookup', description: 'Looks up.', input: order, sideEffect: 'none', run: touch('lookup') }),
      tool({ name: 'refund', description: 'Pays.', input: order.extend({ cents: z.number() }), approval: true, run: touch('refund') }),
    ],
  });`;

async function recordRuns(store: Store): Promise<void> {
  const order = z.object({ orderId: z.string() });
  const agent = createAgent({
    name: 'desk',
    store,
    model: scripted(TURNS),
    tools: [
      tool({
        name: 'lookup',
        description: 'Looks up.',
        input: order,
        sideEffect: 'none',
        run: () => ({ paid: true }),
      }),
      tool({
        name: 'refund',
        description: 'Pays.',
        input: order.extend({ cents: z.number() }),
        approval: true,
        run: () => 'paid',
      }),
    ],
  });
  for (let index = 0; index < RUNS; index += 1) {
    const run = await agent.start(`Refund A-1, the ${index + 1}. time.`);
    await run.settled();
    await run.approve('call_1_0', { by: 'ann' });
    await run.settled();
  }
}

async function makeDesk(turns: readonly ScriptedTurn[] = TURNS): Promise<Desk> {
  const desk = new Desk(turns, { AGENTCHART_MODEL: 'scripted:turns.json' });
  desk.write('desk.mjs', MODULE);
  const store = sqlite(desk.path('runs.db'));
  await recordRuns(store);
  await store.close();
  return desk;
}

const ARGS = ['regress', '--agent', 'desk.mjs', '--db', 'runs.db'];

describe.concurrent('regress', () => {
  let equal: Desk;
  let other: Desk;
  beforeAll(async () => {
    equal = await makeDesk();
    other = await makeDesk([REFUND, { text: 'Done.' }]);
  });

  test('says that an equal agent does the same, and exits with 0', async () => {
    const { code, stdout, stderr } = await equal.run(ARGS);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^8 recorded runs played\n {6}8 {2}same\n/);
    expect(stdout).toMatch(/The played runs are in .*regress-[0-9a-f]{8}\.db\.\n$/);
    expect(existsSync(equal.path('touched'))).toBe(false);
  });

  test('prints each run that differs, and exits with 1', async () => {
    const { code, stdout } = await other.run([...ARGS, '--out', 'played.db', '--last', '3']);
    expect(code).toBe(1);
    expect(stdout).toContain('3 recorded runs played');
    expect(stdout).toMatch(
      /run_\w+ {2}turn 1 {2}missing call {2}lookup\(\{ orderId: A-1 \}\) was not called/,
    );
    expect(stdout).toContain('serve --db played.db');
    expect(existsSync(other.path('touched'))).toBe(false);
  });

  test('prints JSON, Markdown and JUnit, and fails on what it is told', async () => {
    const json = await other.run([...ARGS, '--out', 'json.db', '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({
      runs: RUNS,
      otherEffects: RUNS,
      complete: true,
      differences: expect.arrayContaining([
        expect.objectContaining({ kind: 'missing-call', tool: 'lookup', sideEffect: 'none' }),
      ]),
    });
    expect(json.code).toBe(1);
    const passed = await other.run([
      ...ARGS,
      '--out',
      'json.db',
      '--markdown',
      '--fail-on',
      'new-once-calls',
    ]);
    expect(passed.code).toBe(0);
    expect(passed.stdout).toContain('| `lookup` | none | missing call in 8 runs |');
    const failed = await other.run([
      ...ARGS,
      '--out',
      'json.db',
      '--junit',
      '--fail-on',
      'missing-calls,cost>10%',
    ]);
    expect(failed.code).toBe(1);
    expect(failed.stdout).toContain('<testsuite');
    const unknown = await other.run([...ARGS, '--fail-on', 'news']);
    expect(unknown.code).toBe(2);
    expect(unknown.stderr).toContain('new-once-calls');
  });

  test('plays exported files, and refuses them beside ids', async () => {
    const listed = await equal.run(['runs', '--db', 'runs.db', '--json']);
    const runId = /run_\w+/.exec(listed.stdout)?.[0] ?? '';
    await equal.run(['export', runId, '--db', 'runs.db', '--out', 'one.json']);
    const { code, stdout } = await equal.run([...ARGS, 'one.json', '--out', 'files.db']);
    expect({ code, stdout }).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('1 recorded run played'),
    });
    const mixed = await equal.run([...ARGS, 'one.json', runId]);
    expect(mixed).toMatchObject({ code: 2, stderr: expect.stringContaining('not both') });
  });

  test('continues after kill -9 at any time, executes nothing, and writes nothing to the recorded runs', async () => {
    const desk = await makeDesk();
    const bytes = readFileSync(desk.path('runs.db'));
    const args = [...ARGS, '--out', 'played.db', '--samples', '3', '--json', '--concurrency', '2'];
    const begins = performance.now();
    await desk.runAlone(['--version']);
    const startMs = performance.now() - begins;
    for (let kill = 0; kill < KILLS; kill += 1) {
      const started = desk.start(args);
      await sleep(startMs * (0.7 + Math.random()));
      started.child.kill('SIGKILL');
      await started.ended;
    }
    const { code, stdout } = await desk.runAlone(args);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ runs: RUNS, same: RUNS, samples: 3, complete: true });
    expect(existsSync(desk.path('touched'))).toBe(false);
    expect(readFileSync(desk.path('runs.db')).equals(bytes)).toBe(true);
    const played = sqlite(desk.path('played.db'));
    const { runs } = await played.list({ labels: { regress: 'candidate' }, limit: 100 });
    expect(runs.length).toBe(RUNS * 3);
    for (const { runId } of (await played.list({ limit: 100 })).runs)
      expect((await replayRun(played, runId)).equal).toBe(true);
    await played.close();
  }, 600_000);
});
