import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { manager, openQuorumDesk } from '../../support/engine/quorum-desk.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

const PROGRAM = fileURLToPath(new URL('../../support/engine/quorum-desk.ts', import.meta.url));

test('a process that is killed after the first of two approvals keeps it, and the call waits for the second', async () => {
  const path = join(makeTemporaryFolder('quorum'), 'runs.db');
  const child = spawn(process.execPath, [PROGRAM, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [said] = await once(child.stdout, 'data');
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(String(said)).toBe('true\n');

  const agent = openQuorumDesk(path);
  try {
    const run = await agent.open('r');
    expect(await run.settled()).toMatchObject({
      status: 'waiting',
      open: [{ kind: 'approval', quorum: 2, approvedBy: ['mia'] }],
    });
    expect(await run.approve('call_0_0', manager('mia'))).toMatchObject({ accepted: false });
    expect(await run.approve('call_0_0', manager('max'))).toEqual({ accepted: true });
    expect(await run.settled()).toMatchObject({
      status: 'finished',
      results: [{ name: 'refund', output: 'paid' }],
    });
  } finally {
    await agent.store.close?.();
  }
});
