import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { sqlite } from '../../stores/sqlite.ts';
import { AGENT, calling, Desk, REFUND } from '../support/cli/desk.ts';

const SCRIPT = [{ text: 'Let me see.', ...calling(REFUND) }, { text: 'Done.' }];

async function rest() {
  const desk = new Desk(SCRIPT);
  const { runId } = await desk.begin();
  return { desk, runId };
}

async function finish() {
  const { desk, runId } = await rest();
  expect((await desk.run(['approve', runId, 'call_0_0'])).code).toBe(0);
  return { desk, runId, journal: await desk.journal(runId) };
}

function holds({ store }: Desk, words: string): boolean {
  return ['', '-wal'].some(end => existsSync(store + end) && readFileSync(store + end).includes(words));
}

describe.concurrent('delete', () => {
  test('removes a run by a prefix of its id and confirms it; the run is then unknown', async () => {
    const { desk, runId } = await finish();
    const { code, stdout } = await desk.run(['delete', runId.slice(0, 12)]);
    expect([code, stdout]).toEqual([0, `Deleted ${runId}\n`]);
    expect((await desk.run(['show', runId])).code).toBe(2);
    const again = await desk.run(['delete', runId]);
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining(`No run matches ${runId}`)]);
    expect(holds(desk, 'Let me see.')).toBe(false);
  });

  test('exits 4 for a run that another run continues, and removes both with --cascade', async () => {
    const { desk, runId } = await finish();
    const later = await desk.run(['run', '--continues', runId, '--json', 'more'], desk.model);
    const { runId: laterId } = JSON.parse(later.stdout.split('\n')[0] ?? '');
    const refused = await desk.run(['delete', runId]);
    expect([refused.code, refused.stderr]).toEqual([4, expect.stringContaining(laterId)]);
    const { code, stdout } = await desk.run(['delete', runId, '--cascade', '--json']);
    expect([code, JSON.parse(stdout)]).toEqual([0, { runId, deleted: [runId, laterId] }]);
  });

  test('exits 4 for a run that a process drives, and names the process', async () => {
    const { desk, runId } = await rest();
    const store = sqlite(desk.store);
    const owner = { id: 'other', host: 'elsewhere', pid: 77, startedAt: '1' };
    await store.claim(runId, { owner, now: Date.now(), leaseMs: 60_000, isDead: () => false });
    await store.close();
    for (const command of [['delete'], ['redact', '--path', '/1/input/0/content/0/text']]) {
      const { code, stderr } = await desk.run([command[0] ?? '', runId, ...command.slice(1)]);
      expect([code, stderr]).toEqual([4, expect.stringContaining('driven by process 77 on elsewhere')]);
    }
    expect((await desk.run(['show', runId])).code).toBe(0);
  });
});

describe.concurrent('delete --label', () => {
  test('removes all runs with the label, also one that waits, and nothing of them is left', async () => {
    const desk = new Desk(SCRIPT);
    const { runId } = await desk.begin('--label', 'user=7');
    const other = await desk.run(
      ['run', '--agent', AGENT, '--json', '--label', 'user=8', 'My name is Ada.'],
      desk.model,
    );
    const { runId: otherId } = JSON.parse(other.stdout.split('\n')[0] ?? '');
    const { code, stdout } = await desk.run(['delete', '--label', 'user=7']);
    expect([code, stdout]).toEqual([0, `Deleted ${runId}\n`]);
    expect((await desk.run(['show', runId])).code).toBe(2);
    const again = await desk.run(['delete', '--label', 'user=7', '--json']);
    expect([again.code, JSON.parse(again.stdout)]).toEqual([0, { labels: { user: '7' }, deleted: [] }]);
    expect(holds(desk, 'My name is Ada.')).toBe(true);
    expect((await desk.run(['delete', '--label', 'user=8'])).stdout).toBe(`Deleted ${otherId}\n`);
    expect((await desk.run(['delete', '--label', 'user=8'])).stdout).toBe('No runs match.\n');
    expect(holds(desk, 'My name is Ada.')).toBe(false);
  });

  test('exits 2 without a run and a label, and with both', async () => {
    const { desk, runId } = await rest();
    for (const wrong of [
      [],
      [runId, '--label', 'user=7'],
      [runId, '--by', 'ann'],
      ['--label', 'user=7', '--cascade'],
      ['--label', 'user'],
    ])
      expect((await desk.run(['delete', ...wrong])).code).toBe(2);
    expect((await desk.run(['show', runId])).code).toBe(0);
  });
});

describe.concurrent('prune', () => {
  test('deletes what ended before a time, says how many with --dry-run before, and needs a time', async () => {
    const { desk, runId } = await finish();
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
    for (const wrong of [
      [],
      ['--before', 'soon'],
      ['--before', '2026-02-30'],
      ['--before', '2026-11-01T08:00'],
    ])
      expect((await desk.run(['prune', ...wrong])).code).toBe(2);
    expect((await desk.run(['prune', '--before', tomorrow, '--status', 'waiting'])).code).toBe(2);
    for (const time of ['5', '2026-11-01T08:00'])
      expect((await desk.run(['runs', '--since', time])).code).toBe(2);
    expect((await desk.run(['prune', '--before', '2020-01-01'])).stdout).toBe('Deleted 0 runs\n');
    expect((await desk.run(['prune', '--before', tomorrow, '--label', 'user=8'])).stdout).toBe(
      'Deleted 0 runs\n',
    );
    expect((await desk.run(['prune', '--before', tomorrow, '--dry-run'])).stdout).toBe(
      'Would delete 1 run\n',
    );
    expect((await desk.run(['show', runId])).code).toBe(0);
    const { code, stdout } = await desk.run(['prune', '--before', tomorrow, '--json']);
    expect([code, JSON.parse(stdout)]).toEqual([0, { count: 1, deleted: [runId] }]);
    expect((await desk.run(['show', runId])).code).toBe(2);
  });
});

describe.concurrent('redact', () => {
  test('replaces the named values and reports their other occurrences; replay reports the number of redactions', async () => {
    const { desk, runId, journal } = await finish();
    const turn = journal.find(({ type }) => type === 'turn.completed')?.seq;
    const path = `/${turn}/calls/0/input/orderId`;
    const first = await desk.run(['redact', runId, '--path', path, '--by', 'eve']);
    expect(first.code).toBe(0);
    expect(first.stdout).toContain('Redacted 1 value in ');
    expect(first.stdout).toMatch(new RegExp(`also occurs in:\n  /${turn}/items/\\d+/arguments\n$`));

    const text = await desk.run(['redact', runId, '--json', '--path', `/${turn}/text`]);
    const report = JSON.parse(text.stdout);
    expect(report).toMatchObject({
      runId,
      values: 1,
      elsewhere: [expect.stringContaining(`/${turn}/items/`)],
    });
    const paths = report.elsewhere.flatMap((other: string) => ['--path', other]);
    expect((await desk.run(['redact', runId, ...paths])).code).toBe(0);
    expect(holds(desk, 'Let me see.')).toBe(false);

    const replayed = await desk.run(['replay', runId]);
    expect(replayed.code).toBe(0);
    expect(replayed.stdout).toMatch(/redacted +3 values/);
    expect(replayed.stdout).toMatch(/equal +yes/);
    expect((await desk.run(['export', runId, '--out', 'run.json'])).code).toBe(0);
    const file = await desk.run(['replay', 'run.json', '--json']);
    expect([file.code, file.stdout]).toEqual([0, expect.stringContaining('"redacted":3')]);
    const shown = await desk.run(['show', runId, '--events']);
    expect(shown.stdout).toMatch(new RegExp(`run\\.redacted +.*${path}.*eve`));
  });

  test('of several values at once, in processes of their own, leaves none of them, and replay counts all', async () => {
    const { desk, runId, journal } = await finish();
    const turns = journal.filter(({ type }) => type === 'turn.completed');
    const words = ['Let me see.', 'Done.', 'go'];
    const places = [`/${turns[0]?.seq}/text`, `/${turns[1]?.seq}/text`, '/1/input/0/content/0/text'];
    const redact = async (path: string) => {
      const { code, stdout } = await desk.runAlone(['redact', runId, '--json', '--path', path]);
      expect(code).toBe(0);
      return JSON.parse(stdout);
    };
    await Promise.all(places.map(redact));
    const events = await desk.journal(runId);
    const left = events.map(event => (event.type === 'turn.completed' ? event.text : events[0]));
    expect(words.filter(word => JSON.stringify(left).includes(`"${word}"`))).toEqual([]);
    const replayed = await desk.run(['replay', runId]);
    expect([replayed.code, replayed.stdout]).toEqual([0, expect.stringMatching(/redacted +3 values/)]);
  });

  test('exits 2 for a path that does not exist, 4 for a value that replay needs, and changes nothing', async () => {
    const { desk, runId, journal } = await finish();
    expect((await desk.run(['redact', runId, '--path', '/99/text'])).code).toBe(2);
    expect((await desk.run(['redact', runId, '--path', '/1/at'])).code).toBe(4);
    expect((await desk.run(['redact', runId])).code).toBe(2);
    expect((await desk.run(['redact', 'nobody', '--path', '/1/at'])).code).toBe(2);
    expect(await desk.journal(runId)).toEqual(journal);
  });

  test('exits 4 for the input of a call that waits for approval', async () => {
    const { desk, runId } = await rest();
    const turn = (await desk.journal(runId)).find(({ type }) => type === 'turn.completed')?.seq;
    const { code, stderr } = await desk.run(['redact', runId, '--path', `/${turn}/calls/0/input/orderId`]);
    expect([code, stderr]).toEqual([4, expect.stringContaining('without a result')]);
  });
});

describe.concurrent('backup', () => {
  test('copies the store to a file that can be named with --db: the run in it waits, is approved and finishes', async () => {
    const { desk, runId } = await rest();
    const made = await desk.run(['backup', 'copies/runs.db']);
    expect([made.code, made.stdout]).toEqual([
      0,
      expect.stringContaining('Backed up 1 run to copies/runs.db'),
    ]);
    const again = await desk.run(['backup', 'copies/runs.db']);
    expect([again.code, again.stderr]).toEqual([4, expect.stringContaining('exists')]);
    const other = ['--db', 'copies/runs.db'];
    expect((await desk.run(['approve', runId, 'call_0_0', ...other])).code).toBe(0);
    expect((await desk.run(['replay', runId, ...other])).code).toBe(0);
    expect((await desk.run(['resume', runId])).code).toBe(3);
    const missing = await desk.run(['backup', 'more.db', '--db', 'none.db']);
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('none.db does not exist')]);
  });
});
