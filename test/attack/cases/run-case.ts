import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { AttackCase, CaseKind } from './attack-case.ts';
import type { CaseReport } from './case-worker.ts';
import { type Finding, found } from './finding.ts';

const WORKER = fileURLToPath(new URL('case-worker.ts', import.meta.url));

export type CaseOptions = { folder: string; seed: number; longestMs: number };
export type CaseResult = { name: string; findings: Finding[]; busyMs: number };

/** Runs one case in a process. A case that takes longer than `longestMs` is killed, and counts as frozen. */
export async function runCase(
  kind: CaseKind,
  attack: AttackCase,
  { folder, seed, longestMs }: CaseOptions,
): Promise<CaseResult> {
  const name = `${kind}/${attack.name}`;
  const own = join(folder, name.replaceAll(/\W+/g, '-'));
  mkdirSync(own, { recursive: true });
  const args = [WORKER, kind, attack.name, String(seed), own];
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? join(folder, 'compiled') },
  });
  let output = '';
  let errors = '';
  let isLate = false;
  child.stdout.on('data', chunk => {
    output += chunk;
  });
  child.stderr.on('data', chunk => {
    errors = `${errors}${chunk}`.slice(-2_000);
  });
  const timer = setTimeout(() => {
    isLate = true;
    child.kill('SIGKILL');
  }, longestMs);
  await once(child, 'close');
  clearTimeout(timer);
  rmSync(own, { recursive: true, force: true, maxRetries: 5 });
  if (isLate) {
    const what = `it did not end within ${longestMs / 1_000} s`;
    return { name, findings: [found('frozen', what)], busyMs: longestMs };
  }
  const report = readReport(output);
  return report === null
    ? { name, findings: [found('broken', `the process ended without a report: ${errors}`)], busyMs: 0 }
    : { name, ...report };
}

function readReport(output: string): CaseReport | null {
  const line = output.trimEnd().split('\n').at(-1) ?? '';
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}
