import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { webhook } from '../../../agent/listening/webhook.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { makeFile } from '../../support/stores/make-file.ts';
import { makeDesk } from '../../support/tools/listening/desk.ts';
import { receiveHooks, SECRET } from '../../support/tools/listening/hook-receiver.ts';

const FIXTURE = join(import.meta.dirname, '../../support/tools/listening/hook-fixture.ts');

test('a message that was not taken when its process was killed arrives from the next process', async () => {
  let child: ChildProcess | undefined;
  const hooks = await receiveHooks(
    [500, 500, 500],
    ({ length }) => void (length === 2 && child?.kill('SIGKILL')),
  );
  const database = makeFile();
  child = spawn(process.execPath, ['--no-warnings', FIXTURE, database, hooks.url], { stdio: 'inherit' });
  await once(child, 'exit');
  const before = hooks.received.length;
  expect(before).toBeGreaterThanOrEqual(2);
  const store = sqlite(database);
  const agent = makeDesk(store);
  agent.on(webhook({ url: hooks.url, secret: SECRET }));
  await expect.poll(() => hooks.received.length, { interval: 10 }).toBeGreaterThanOrEqual(4);
  expect(new Set(hooks.received.map(({ id }) => id)).size).toBe(1);
  expect(hooks.received.every(({ isSigned, body }) => isSigned && body.type === 'run.waiting')).toBe(true);
  await agent.close();
  await store.close();
  hooks.close();
});
