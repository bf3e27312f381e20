import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { AgUiClient } from '../../support/fronts/ag-ui-desk.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const FIXTURE = fileURLToPath(new URL('../../support/fronts/ag-ui-fixture.ts', import.meta.url));

const processes: ChildProcess[] = [];
afterEach(() => {
  for (const child of processes.splice(0)) child.kill('SIGKILL');
});

/** Starts the endpoint in a process; returns its address and what kills it. */
async function serve(db: string): Promise<{ url: string; kill(): Promise<unknown> }> {
  const child = spawn(process.execPath, [FIXTURE, db], { stdio: ['ignore', 'pipe', 'inherit'] });
  processes.push(child);
  const [port] = await once(child.stdout, 'data');
  const kill = () => {
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    return exited;
  };
  return { url: `http://127.0.0.1:${String(port).trim()}/`, kill };
}

test('a server is killed while an approval waits; the client goes on with the next one', async () => {
  const db = join(makeTemporaryFolder('ag-ui'), 'runs.db');
  const first = await serve(db);
  const client = new AgUiClient(first.url, 'thread');
  await client.say('pay');
  expect(client.interrupts).toHaveLength(1);
  await first.kill();
  client.agent.url = (await serve(db)).url;
  await client.resume({ approved: true });
  expect(client.texts).toEqual(['I pay.', 'Paid.']);
  expect(client.results).toEqual(['pay ran']);
  expect(client.state).toMatchObject({ state: 'finished' });
  expect(client.types).not.toContain('MESSAGES_SNAPSHOT');
});
