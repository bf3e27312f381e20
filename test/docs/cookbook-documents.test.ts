import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { sqlite } from '../../stores/sqlite.ts';
import { importNamed } from '../support/docs/guide-blocks.ts';
import { makeTemporaryFolder } from '../support/temporary-folders.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const NAMES = Array.from({ length: 40 }, (_, at) => `${at + 100}.txt`);

/** The job of the page with a model that notes each call, and says on stdout how many have ended. */
const PROGRAM = `
import { appendFileSync } from 'node:fs';
import { scripted } from 'agentchart/adapters/scripted';
import { createInvoices } from '${ROOT}test-results/pages/cookbook/documents-at-night/invoices.ts';
import { readInvoices } from '${ROOT}test-results/pages/cookbook/documents-at-night/night.ts';

const usage = { inputTokens: 1, outputTokens: 1 };
let calls = 0;
const model = {
  ...scripted([]),
  model: 'gpt-5-mini',
  stream(request, signal) {
    const name = /\\d+\\.txt/.exec(JSON.stringify(request.transcript))[0];
    appendFileSync('calls.txt', name + '\\n');
    calls += 1;
    if (calls === Number(process.argv[1])) process.kill(process.pid, 'SIGKILL');
    const text = JSON.stringify({ number: name, total: 1, currency: 'EUR' });
    return scripted([{ text, usage }]).stream(request, signal);
  },
};
const { found, failed } = await readInvoices(createInvoices(model), 'inbox', { labels: { job: 'a' } });
console.log(JSON.stringify({ found: found.map(({ file, number }) => [file, number]), failed }));
`;

async function run(folder: string, killedAt = Infinity): Promise<string[]> {
  const args = ['--import', `${ROOT}test/support/use-sources.ts`, '--input-type=module-typescript'];
  const child = spawn(process.execPath, [...args, '-e', PROGRAM, String(killedAt)], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', line => lines.push(line));
  await once(child, 'close');
  return lines;
}

test('a job that is killed twice has one run for each document, and repeats only what was in progress', async () => {
  await importNamed('cookbook/documents-at-night', 'invoices.ts');
  const folder = makeTemporaryFolder('documents');
  mkdirSync(join(folder, 'inbox'));
  for (const name of NAMES) writeFileSync(join(folder, 'inbox', name), 'An invoice');

  const endedAfter: string[][] = [];
  for (const killedAt of [15, 10]) {
    expect(await run(folder, killedAt)).toEqual([]);
    const store = sqlite(join(folder, 'invoices.db'));
    const { runs } = await store.list({ status: 'finished', limit: 1000 });
    endedAfter.push(runs.map(({ title }) => title ?? ''));
    await store.close();
    appendFileSync(join(folder, 'calls.txt'), 'killed\n');
  }
  const [line = ''] = await run(folder);
  expect(JSON.parse(line)).toEqual({ found: NAMES.map(name => [name, name]), failed: [] });

  const store = sqlite(join(folder, 'invoices.db'));
  const [total] = (await store.totals?.({ labels: { job: 'a' } }))?.rows ?? [];
  expect(total).toMatchObject({ runs: NAMES.length, turns: NAMES.length });
  await store.close();
  const parts = readFileSync(join(folder, 'calls.txt'), 'utf8').split('killed\n');
  for (const [at, ended] of endedAfter.entries()) {
    expect(ended.length).toBeGreaterThan(0);
    const later = parts.slice(at + 1).join('');
    expect(ended.filter(name => later.includes(name))).toEqual([]);
  }
  const calls = parts.join('').trimEnd().split('\n').length;
  expect(calls).toBeGreaterThanOrEqual(NAMES.length);
  expect(calls).toBeLessThanOrEqual(NAMES.length + 2 * 8);
});
