import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { postgres } from '../../stores/postgres.ts';
import { findPort, POSTGRES_BIN } from '../support/stores/postgres-server.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PATIENT = { timeout: 60_000, interval: 50 };

/** The last answer takes long enough to kill the worker that waits for it. */
const SCRIPT = [
  { toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1001', cents: 4200 } }] },
  { text: 'Refunded.', delayMs: 4_000 },
];

/** The lines of docs/workers.md, with free ports. */
function readLines(database: number, server: number): string {
  const page = readFileSync(join(ROOT, 'docs/workers.md'), 'utf8');
  const lines = /```sh\n(export PATH=.*?)```/s.exec(page)?.[1] ?? expect.unreachable();
  return lines
    .replaceAll('5433', String(database))
    .replace('serve --no-drive', `serve --no-drive --port ${server}`);
}

/** A folder with the example and the commands. PostgreSQL refuses to run as root: then another user does. */
function makeFolder(): string {
  const folder = makeTemporaryFolder('processes');
  symlinkSync(join(ROOT, 'examples'), join(folder, 'examples'));
  writeFileSync(join(folder, 'script.json'), JSON.stringify(SCRIPT));
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const command = (name: string, line: string) =>
    writeFileSync(join(bin, name), `#!/bin/sh\nexec ${line} "$@"\n`, { mode: 0o755 });
  command('agentchart', `'${process.execPath}' '${join(ROOT, 'cli/main.ts')}'`);
  if (process.getuid?.() === 0) {
    chmodSync(folder, 0o777);
    for (const name of ['initdb', 'pg_ctl'])
      command(
        name,
        `setpriv --reuid=postgres --regid=postgres --clear-groups '${join(POSTGRES_BIN ?? '', name)}'`,
      );
  }
  return folder;
}

test.skipIf(POSTGRES_BIN === undefined)(
  'the lines of docs/workers.md start a database, two workers and a server: a run approved on one, killed on another, is finished by the third',
  async () => {
    const [database, port] = [await findPort(), await findPort()];
    const folder = makeFolder();
    const shell = spawn('sh', ['-c', readLines(database, port)], {
      cwd: folder,
      detached: true,
      stdio: 'ignore',
      env: {
        ...process.env,
        PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
        AGENTCHART_MODEL: `scripted:${join(folder, 'script.json')}`,
      },
    });
    const store = postgres(`postgres://agents@127.0.0.1:${database}/postgres`);
    const api = `http://127.0.0.1:${port}/runs`;
    const send = async (path: string, body: unknown) =>
      (await fetch(`${api}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }).then(response => response.json())) as { runId: string };
    const show = async (runId: string) =>
      (await (await fetch(`${api}/${runId}`)).json()) as {
        settled: { status: string; approvals?: { callId: string }[]; text?: string } | null;
      };
    try {
      await expect
        .poll(
          () =>
            fetch(api).then(
              ({ ok }) => ok,
              () => false,
            ),
          PATIENT,
        )
        .toBe(true);
      const { runId } = await send('', { input: 'Refund order A-1001.' });
      await expect.poll(async () => (await show(runId)).settled?.status, PATIENT).toBe('waiting');
      const [call] = (await show(runId)).settled?.approvals ?? [];
      await send(`/${runId}/approve`, { callId: call?.callId });
      const words = async () => (await store.read(runId)).map(({ event }) => event.type);
      await expect.poll(words, PATIENT).toContain('tool.settled');
      const killed = (await store.get(runId))?.owner?.pid ?? expect.unreachable();
      process.kill(killed, 'SIGKILL');
      await expect.poll(async () => (await show(runId)).settled?.status, PATIENT).toBe('finished');
      expect((await show(runId)).settled?.text).toBe('Refunded.');
      const journal = await store.read(runId);
      expect(journal.filter(({ event }) => event.type === 'tool.started')).toHaveLength(1);
      const claims = journal.flatMap(({ event }) => (event.type === 'run.claimed' ? [event.by] : []));
      expect(new Set([claims.at(-1), claims.at(-2)]).size).toBe(2);
    } finally {
      await store.close();
      if (shell.pid !== undefined) process.kill(-shell.pid, 'SIGKILL');
      spawnSync('pg_ctl', ['-D', join(folder, 'runs'), '-m', 'immediate', 'stop'], {
        env: { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}:${POSTGRES_BIN}` },
      });
    }
  },
);
