import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const example = fileURLToPath(new URL('../../examples/actor.ts', import.meta.url));

test('an actor rests in one process, and another process continues it from its JSON', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [example]);
  const [first, second, third] = stdout.trim().split('\n');
  expect(first).toMatch(/^process \d+: resting in {"resting":"awaitingApproval"}, snapshot saved$/);
  expect(second).toMatch(/^process \d+: approving publish {"page":"home"}$/);
  expect(third).toMatch(/^process \d+: "finished": The home page is live\.$/);
  const pids = [first, second, third].map(line => /\d+/.exec(line ?? '')?.[0]);
  expect(pids[0]).not.toBe(pids[1]);
  expect(pids[1]).toBe(pids[2]);
});
