import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { workloads } from '../../bench/workloads.ts';
import { sampled } from '../support/sample.ts';

const MAIN = fileURLToPath(new URL('../../bench/main.ts', import.meta.url));

function bench(...args: string[]) {
  return spawnSync(process.execPath, [MAIN, ...args], { encoding: 'utf8' });
}

test.each(sampled(['--help', '-h'], 1))(
  '%s prints the options and every workload, and runs no measurement',
  option => {
    const { status, stdout, stderr } = bench(option);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    for (const { name } of workloads) expect(stdout).toMatch(new RegExp(`^  ${name} `, 'm'));
    for (const { title } of workloads) expect(stdout).toContain(title);
    for (const named of ['--only', '--peers', '--json']) expect(stdout).toContain(named);
  },
);

test('an unknown option is refused', () => {
  const { status, stderr } = bench('--nope');
  expect(status).toBe(2);
  expect(stderr).toContain('--nope');
});
