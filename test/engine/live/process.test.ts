import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const program = fileURLToPath(new URL('../../support/engine/persist-rejects.ts', import.meta.url));

test('a process lives on when persist rejects, at whichever call, and each tool runs once', async () => {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program]);
  expect(stderr).toBe('');
  const before = [[], [], ['pay'], ['pay'], ['pay', 'book']];
  expect(
    stdout
      .trim()
      .split('\n')
      .map(line => JSON.parse(line)),
  ).toEqual(
    before.map(ran => ({
      reason: 'The snapshot could not be stored: persist failed once: quota exceeded',
      before: ran,
      value: 'finished',
      ran: ['pay', 'book'],
      status: 'done',
    })),
  );
});
