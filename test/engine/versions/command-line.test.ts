import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import { chartIdentity } from '../../../machines/snapshot.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { AGENT, Desk, LIBRARY } from '../../support/cli/desk.ts';
import { OLDER, oldEvents } from '../../support/versions/old-journals.ts';
import { rewriteJournal } from '../../support/versions/rewrite-journal.ts';

const { version: CHART } = chartIdentity();

/** A desk whose store has a journal of an older chart with a call in doubt. */
async function deskWithOld(): Promise<Desk> {
  const desk = new Desk([]);
  const [started, ...events] = oldEvents('in-doubt');
  mkdirSync(dirname(desk.store), { recursive: true });
  const store = sqlite(desk.store);
  await store.create({ ...started, runId: 'run_old' }, undefined, { events, status: 'waiting' });
  await store.close();
  return desk;
}

/** The arguments that name an agent with a migration from the older chart; `migrate` is the step's code. */
function knowing(desk: Desk, migrate = 'events => events'): [string, string] {
  const step = `{ from: { chart: ${OLDER.version} }, to: { chart: ${CHART} }, migrate: ${migrate} }`;
  const module = desk.write(
    'knowing.mjs',
    `import { createAgent } from ${JSON.stringify(LIBRARY)};
     export default createAgent({ name: 'golden', version: '1', migrations: [${step}] });`,
  );
  return ['--agent', module];
}

describe.concurrent('show', () => {
  test('of a run of an older chart reports what is readable, and advises a migration', async () => {
    const desk = await deskWithOld();
    const { code, stdout } = await desk.run(['show', 'run_old', ...knowing(desk)]);
    expect(code).toBe(1);
    expect(stdout).toContain(`needs-migration: it has chart version ${OLDER.version}`);
    expect(stdout).toContain(
      '`agentchart migrate run_old` creates a run that continues from its current state',
    );
    const json = await desk.run(['show', 'run_old', '--json']);
    expect(json.code).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({
      runId: 'run_old',
      agent: 'golden',
      versions: { verdict: 'needs-migration', opens: false, differences: [{ what: 'chart' }] },
    });
  });

  test('of a run of this version omits versions, unless a different agent is named', async () => {
    const desk = new Desk([{ text: 'Done.' }]);
    const { runId } = await desk.begin();
    const alone = await desk.run(['show', runId]);
    expect(alone.code).toBe(0);
    expect(alone.stdout).not.toContain('versions');
    const other = desk.write(
      'other.mjs',
      `import { createAgent } from ${JSON.stringify(LIBRARY)};
       export default createAgent({ name: 'desk', version: '9' });`,
    );
    const { code, stdout } = await desk.run(['show', runId, '--agent', other]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/versions +compatible/);
    expect(stdout).toContain('agent version new: the run continues with the current version');
    expect(stdout).toMatch(/tool \w+ removed: later calls of it get an error as their result/);
    const same = await desk.run(['show', runId, '--json', '--agent', AGENT], desk.model);
    expect(JSON.parse(same.stdout).versions).toMatchObject({ verdict: 'same', opens: true });
  });
});

describe.concurrent('a command that changes a run', () => {
  test.each([
    ['resume', 'run_old'],
    ['resolve', 'run_old', 'call_0_0', '--retry'],
    ['fork', 'run_old', '--at', '2', '--no-drive'],
    ['replay', 'run_old'],
  ])('%s does nothing to one of an older chart, and says why', async (...args) => {
    const desk = await deskWithOld();
    const before = await desk.journal('run_old');
    const { code, stderr } = await desk.run(args, { AGENTCHART_MODEL: 'scripted:turns.json' });
    expect(code).toBe(1);
    expect(stderr).toContain(`it has chart version ${OLDER.version}`);
    expect(stderr).toContain('agentchart migrate run_old');
    expect(await desk.journal('run_old')).toEqual(before);
  });
});

describe.concurrent('migrate', () => {
  test('creates a run that continues, leaves the old run unchanged, and succeeds once', async () => {
    const desk = await deskWithOld();
    const agent = knowing(desk);
    const before = await desk.journal('run_old');
    const { code, stdout } = await desk.run(['migrate', 'run_old', ...agent, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      runId: 'run_old_m2',
      migratedFrom: 'run_old',
      status: 'waiting',
      state: 'resting.inDoubt',
    });
    expect(await desk.journal('run_old')).toEqual(before);
    const again = await desk.run(['migrate', 'run_old', ...agent]);
    expect(again).toMatchObject({ code: 4, stderr: expect.stringContaining('use run run_old_m2') });
    const shown = await desk.run(['show', 'run_old']);
    expect(shown.stdout).toContain('It was already migrated: use run run_old_m2.');
    const next = await desk.run(['show', 'run_old_m2']);
    expect(next).toMatchObject({ code: 0, stdout: expect.stringContaining('resting.inDoubt') });
    const other = await desk.run(['migrate', 'run_old', ...agent, '--as', 'run_other']);
    expect(other).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('run_other  migrated from run_old'),
    });
    expect(other.stdout).toContain('resume run_other');
  });

  test('of a run of this version is refused', async () => {
    const desk = new Desk([{ text: 'Done.' }]);
    const { runId } = await desk.begin();
    const { code, stderr } = await desk.run(['migrate', runId]);
    expect(code).toBe(4);
    expect(stderr).toContain('can be opened as it is');
  });
});

describe.concurrent('a journal on disk with event types unknown to this release', () => {
  const newer = (text: string, seq: number) => {
    if (seq === 1) return text.replace(`"version":${OLDER.version},"hash"`, `"version":${CHART + 1},"hash"`);
    return seq === 3 ? text.replace('"calls.started"', '"calls.dreamt"') : text;
  };

  test('is refused as written by a newer release, and is not reported as damaged', async () => {
    const desk = await deskWithOld();
    rewriteJournal(desk.store, 'run_old', newer);
    for (const command of ['show', 'resume', 'migrate']) {
      const { code, stdout, stderr } = await desk.run([command, 'run_old'], desk.model);
      expect(code, command).toBe(1);
      expect(stdout + stderr).toContain(`it has chart version ${CHART + 1}`);
      expect(stdout + stderr).toContain('Open it with the release of agentchart that wrote it');
      expect(stdout + stderr).not.toContain('damaged');
    }
  });

  test('is reported as damaged when it was written by this release', async () => {
    const desk = new Desk([{ text: 'Done.' }]);
    const { runId } = await desk.begin();
    rewriteJournal(desk.store, runId, (text, seq) =>
      seq === 3 ? text.replace('"type":"', '"type":"un') : text,
    );
    const { code, stderr } = await desk.run(['show', runId]);
    expect(code).toBe(1);
    expect(stderr).toContain(`The journal of run "${runId}" cannot be read: entry 3`);
  });

  test('is migrated by an agent whose migrations know them', async () => {
    const desk = await deskWithOld();
    rewriteJournal(desk.store, 'run_old', (text, seq) =>
      seq === 3 ? text.replace('"calls.started"', '"calls.dreamt"') : text,
    );
    const agent = knowing(
      desk,
      `events => events.map(event =>
        event.type === 'calls.dreamt' ? { ...event, type: 'calls.started' } : event)`,
    );
    const without = await desk.run(['migrate', 'run_old']);
    expect(without).toMatchObject({ code: 1, stderr: expect.stringContaining('Write a migration') });
    const { code, stdout } = await desk.run(['migrate', 'run_old', ...agent, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ runId: 'run_old_m2', state: 'resting.inDoubt' });
  });
});
