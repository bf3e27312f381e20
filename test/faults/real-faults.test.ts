import { spawnSync } from 'node:child_process';
import { chmodSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { receive } from '../../stores/conformance/check.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { calls, makeTool, makeTracedTool } from '../support/engine/agents.ts';
import { makeFile } from '../support/stores/make-file.ts';
import { fail, makeJournal } from '../support/stores/make-journal.ts';

const FIXTURE = resolve('test/support/faults/full-disk-fixture.ts');
const IS_ROOT = process.getuid?.() === 0;

type Line = {
  paid?: string;
  failed?: string;
  message?: string;
  status?: string;
  read?: number;
  doubted?: string;
  ended?: string;
};

function shell(command: string, environment: Record<string, string> = {}) {
  const env = { ...process.env, NODE: process.execPath, FIXTURE, ...environment };
  return spawnSync('sh', ['-c', command], { env, encoding: 'utf8' });
}

function linesOf(stdout: string): Line[] {
  return stdout
    .split('\n')
    .filter(line => line !== '')
    .map((line): Line => JSON.parse(line));
}

function expectEachPaidOnce(lines: readonly Line[]): void {
  const keys = lines.flatMap(({ paid }) => paid ?? []);
  expect(keys).toHaveLength(12);
  expect(new Set(keys).size).toBe(12);
}

/** A file system of 6 MB that exists only in the process; some machines do not allow mounting it. */
const SMALL_DISK = 'mkdir -p "$DISK" && mount -t tmpfs -o size=6m tmpfs "$DISK"';
const canMount = shell(`unshare -rm sh -c '${SMALL_DISK}'`, { DISK: dirname(makeFile()) }).status === 0;

describe('a full disk', () => {
  test('ends the driver with an error that names it, and a later process continues from the acknowledged writes', () => {
    const FILE = makeFile();
    const first = shell('ulimit -f 640; exec "$NODE" "$FIXTURE" "$FILE"', { FILE });
    const before = linesOf(first.stdout);
    const failure = before.find(({ failed }) => failed !== undefined);
    expect(failure, first.stderr).toMatchObject({ failed: 'store-unavailable' });
    expect(failure?.message).toContain(FILE);
    expect(failure?.message).toContain('space');
    expect(failure).toMatchObject({ status: 'running' });
    expect(failure?.read).toBeGreaterThan(5);
    const PAID = before.flatMap(({ paid }) => paid?.split(':').at(-1) ?? []).join(' ');
    const second = shell('exec "$NODE" "$FIXTURE" "$FILE"', { FILE, PAID });
    const after = linesOf(second.stdout);
    expect(after.at(-1), second.stderr).toEqual({ ended: 'finished' });
    expectEachPaidOnce([...before, ...after]);
  });

  test.skipIf(!canMount)('lets the same process continue once there is space again', () => {
    const fill = 'head -c 5800000 /dev/zero > "$DISK/ballast"';
    const ended = shell(
      `unshare -rm sh -c '${SMALL_DISK} && ${fill} && "$NODE" "$FIXTURE" "$DISK/runs.db" "$DISK/ballast"'`,
      { DISK: dirname(makeFile()) },
    );
    const lines = linesOf(ended.stdout);
    expect(
      lines.find(({ failed }) => failed !== undefined),
      ended.stderr,
    ).toMatchObject({
      failed: 'store-full',
      message: expect.stringContaining('Free space'),
      status: 'running',
      read: expect.any(Number),
    });
    expect(lines.filter(({ failed }) => failed !== undefined)).toHaveLength(1);
    expect(lines.at(-1)).toEqual({ ended: 'finished' });
    expectEachPaidOnce(lines);
  });

  test.skipIf(!canMount)('under a backup is named, and not that of the store', async () => {
    const FILE = await makeJournal(20);
    const fill = 'head -c 6250000 /dev/zero > "$DISK/ballast"';
    const backup = '"$NODE" "$MAIN" backup "$DISK/copy.db" --db "$FILE"';
    const ended = shell(`unshare -rm sh -c '${SMALL_DISK} && ${fill} && ${backup}'`, {
      DISK: dirname(makeFile()),
      MAIN: resolve('cli/main.ts'),
      FILE,
    });
    expect(ended.stderr).toMatch(/^\S+\/copy\.db cannot grow/);
    expect(ended.status).toBe(1);
  });
});

describe('a lock that another process holds', () => {
  test('ends the driver with an error that names it, and completed calls are not repeated', async () => {
    const file = makeFile();
    const store = sqlite(file, { busyTimeoutMs: 20 });
    const host = new ManualHost();
    const keys: string[] = [];
    const other = new DatabaseSync(file);
    let locks = 0;
    const lock = () => {
      locks += 1;
      if (locks === 1) other.exec('BEGIN IMMEDIATE');
    };
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('lock', 'pay'), { text: 'done' }]),
      tools: [makeTool('lock', { sideEffect: 'none', run: lock }), makeTracedTool('pay', keys)],
    });
    const run = await agent.start('go');
    const error = await fail(host.settle(run.settled()));
    expect(error).toMatchObject({ name: 'EngineError', code: 'store-locked', details: { file } });
    expect(error.message).toContain('another process');
    expect(await fail(host.settle(run.settled()))).toMatchObject({ code: 'store-locked' });
    expect(await store.read(run.id)).not.toHaveLength(0);
    other.exec('ROLLBACK');
    let settled = await host.settle(run.settled());
    if (settled.status === 'waiting') {
      for (const { callId } of settled.doubts) await run.resolve(callId, { happened: true, output: 'found' });
      other.close();
      settled = await host.settle(run.settled());
    }
    expect(settled.status).toBe('finished');
    expect(keys).toHaveLength(1);
    await store.close();
  });
});

describe('a read-only database file', () => {
  test.skipIf(IS_ROOT)('can be read, and refuses writes', async () => {
    const file = await makeJournal(3);
    const bytes = readFileSync(file);
    chmodSync(file, 0o400);
    const store = sqlite(file);
    expect(await store.read('a')).toHaveLength(3);
    const append = store.append('a', { after: 3, input: true }, [receive('x')], { status: 'running' });
    expect(await fail(append)).toMatchObject({ code: 'store-unavailable', details: { file } });
    await store.close();
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });

  const canBind = shell(`unshare -rm true`).status === 0;
  test.skipIf(!canBind)('on a read-only disk is refused by name, and stays unchanged', async () => {
    const file = await makeJournal(3);
    const bytes = readFileSync(file);
    const DISK = dirname(file);
    const ended = shell(
      `unshare -rm sh -c 'mount --bind "$DISK" "$DISK" && mount -o remount,ro,bind "$DISK" && "$NODE" "$FIXTURE" "$FILE"'`,
      { DISK, FILE: join(DISK, 'runs.db') },
    );
    expect(linesOf(ended.stdout).at(-1), ended.stderr).toMatchObject({
      failed: 'store-unavailable',
      message: expect.stringMatching(/runs\.db .* writable/),
    });
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });
});
