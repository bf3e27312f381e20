import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { readOwnerName } from '../../protocol/owner-name.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { BundledFixture } from '../support/durability/bundled-fixture.ts';
import { eventsOf } from '../support/engine/agents.ts';

const fixture = new BundledFixture('two-drivers-fixture');
const RUN = 'run_shared';
const LEASE_MS = '60000';

/** Runs a process in its own PID namespace, as in a container, with PID 1. */
const OWN_NAMESPACE = ['unshare', '-r', '--pid', '--fork', '--kill-child', '--mount-proc'];
const OWN_NAMESPACE_WITHOUT_PROC = OWN_NAMESPACE.slice(0, -1);
const canUnshare = spawnSync(OWN_NAMESPACE[0] ?? '', [...OWN_NAMESPACE.slice(1), 'true']).status === 0;

const children = new Set<ChildProcess>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
});

/** A process of the fixture in its own PID namespace. */
class Contained {
  readonly #child: ChildProcess;
  readonly #told: string;
  readonly #name: string;
  #errors = '';

  constructor(folder: string, name: string, [command = '', ...args]: readonly string[], stop = '') {
    this.#told = join(folder, 'told');
    this.#name = name;
    const line = [...args, process.execPath, fixture.file, folder, name, 'hold', LEASE_MS, stop];
    this.#child = spawn(command, line, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child.stderr?.on('data', chunk => {
      this.#errors += chunk;
    });
    children.add(this.#child);
  }

  async says(beginning: string): Promise<string> {
    for (;;) {
      const lines = existsSync(this.#told) ? readFileSync(this.#told, 'utf8').split('\n') : [];
      const line = lines.find(told => told.startsWith(`${this.#name} ${beginning}`));
      if (line !== undefined) return line;
      if (this.#child.exitCode !== null) throw new Error(`it ended without "${beginning}": ${this.#errors}`);
      await delay(5);
    }
  }

  async ended(): Promise<void> {
    if (this.#child.exitCode === null) await once(this.#child, 'close');
    expect(this.#child.exitCode, this.#errors).toBe(0);
  }
}

describe('drivers in separate PID namespaces, on one store and under one host name', () => {
  test.skipIf(!canUnshare)('do not take each other for dead: the call runs once', async () => {
    const folder = fixture.makeFolder();
    const first = new Contained(folder, 'one', OWN_NAMESPACE);
    await first.says('holds');
    /** PID 1 of a namespace cannot be stopped: this line only shows that the process has claimed twice. */
    const second = new Contained(folder, 'two', OWN_NAMESPACE, 'claim.after 2');
    await second.says('stopped at');
    writeFileSync(join(folder, 'go'), '');
    await Promise.all([first.ended(), second.ended()]);

    expect(readFileSync(join(folder, 'trace'), 'utf8')).toBe(`one call_0_0 ${RUN}:1:call_0_0\n`);
    expect((await second.says('settled')).slice(4)).toBe((await first.says('settled')).slice(4));
    const store = sqlite(join(folder, 'runs.db'));
    const events = await eventsOf(store, RUN);
    await store.close();
    const claims = events.flatMap(event => (event.type === 'run.claimed' ? [event] : []));
    const owner = readOwnerName(claims[0]?.by ?? '');
    expect(owner).toMatchObject({ pid: 1 });
    expect(events.filter(({ type }) => type === 'tool.started')).toHaveLength(1);
    expect(claims[0]).toMatchObject({ epoch: 1 });
    for (const { by } of claims) expect(readOwnerName(by)?.pid).toBe(1);
  });

  test.skipIf(!canUnshare)('that see the /proc of another namespace do not use it to judge owners', () => {
    const module = JSON.stringify(new URL('../../engine/host/owner.ts', import.meta.url));
    const script = `import { makeOwner } from ${module}; console.log(JSON.stringify(makeOwner('x')))`;
    const [command = '', ...args] = OWN_NAMESPACE_WITHOUT_PROC;
    const line = [...args, process.execPath, '--input-type=module', '-e', script];
    const { stdout, stderr } = spawnSync(command, line, { encoding: 'utf8' });
    expect(JSON.parse(stdout), stderr).toMatchObject({ pid: 1, space: '' });
  });
});
