import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { providerNames } from '../../adapters/model-from-env.ts';
import { WAYS } from '../../examples/stand-in/wire/ways.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { runProgram } from '../support/examples/run-program.ts';
import { TAKES_ALL } from '../support/sample.ts';

/**
 * `npm start` with AGENTCHART_MODEL and the stand-in in each provider's wire format. A normal run tests Gemini
 * in two processes; `npm run test:all` tests all.
 */

const AT_ONCE = Math.min(4, Math.max(2, availableParallelism()));
const KEY = 'stand-in-needs-none';
/** Runs in two processes: the first rests, the second approves. */
const IN_TWO = 'gemini';
/** `scripted` is not a provider, and vllm needs the files of a model. */
const WITHOUT_WAY = ['scripted', 'vllm'];
const LEFT_OUT = [IN_TWO, 'openai-responses', ...WITHOUT_WAY];
const OTHERS = providerNames().filter(name => !LEFT_OUT.includes(name));
const NAMES = [IN_TWO, ...(TAKES_ALL ? OTHERS : [])];
const start = fileURLToPath(new URL('../../examples/steward/start.ts', import.meta.url));
const home = mkdtempSync(join(tmpdir(), 'agentchart-providers-'));

type Ended = { code: number; output: string };
let runs: Map<string, Promise<Ended>>;

beforeAll(() => {
  runs = startInTurn(NAMES);
});

afterAll(async () => {
  await Promise.all(runs.values());
  rmSync(home, { recursive: true, force: true });
});

function startInTurn(names: readonly string[]): Map<string, Promise<Ended>> {
  const lanes: Promise<unknown>[] = Array.from({ length: AT_ONCE }, () => Promise.resolve());
  return new Map(
    names.map((name, index) => {
      const ended = (lanes[index % AT_ONCE] ?? Promise.resolve()).then(() => runStart(name));
      lanes[index % AT_ONCE] = ended;
      return [name, ended];
    }),
  );
}

async function runStart(name: string): Promise<Ended> {
  const cwd = join(home, name);
  mkdirSync(cwd);
  const clean = Object.entries(process.env).filter(([key]) => !/_(?:API_KEY|BASE_URL)$/.test(key));
  const env = { ...Object.fromEntries(clean), AGENTCHART_MODEL: `${name}:stand-in` };
  const { code, stdout, stderr } = await runProgram(start, name === IN_TWO ? [] : ['--yes'], { cwd, env });
  return { code, output: stdout + stderr };
}

async function readJournal(name: string): Promise<RunEvent[]> {
  const store = sqlite(join(home, name, '.agentchart/steward/runs.db'));
  const [record] = (await store.list({ limit: 2 })).runs;
  const journal = await store.read(record?.runId ?? '');
  await store.close();
  return journal.map(entry => entry.event);
}

test('the stand-in has a wire format for every provider that AGENTCHART_MODEL accepts', () => {
  expect(Object.keys(WAYS).sort()).toEqual(
    providerNames()
      .filter(name => !WITHOUT_WAY.includes(name))
      .sort(),
  );
});

test.each(NAMES)('%s: lists, reads in parallel, asks before writing, and answers', async name => {
  const { code, output } = (await runs.get(name)) ?? { code: -1, output: '' };
  expect(output).toContain(`in the wire format of ${name}`);
  expect(output).toContain('I have 5 findings');
  expect(output).not.toContain(KEY);
  expect([...output.matchAll(/\(process \d+\)/g)]).toHaveLength(name === IN_TWO ? 2 : 1);
  expect(code).toBe(0);

  const events = await readJournal(name);
  const turns = events.flatMap(event => (event.type === 'turn.completed' ? [event] : []));
  expect(turns.map(turn => turn.calls.map(call => call.name))).toEqual([
    ['directory_tree'],
    Array(8).fill('read_text_file'),
    ['write_file'],
    [],
  ]);
  expect(turns.map(turn => turn.provider)).toEqual(
    Array(4).fill(name === 'openai' ? 'openai-responses' : name),
  );
  const ids = turns.flatMap(turn => turn.calls.map(call => call.callId));
  expect(new Set(ids).size).toBe(10);
  const decisions = events.filter(event => event.type === 'approval.decided');
  expect(decisions).toMatchObject([{ callId: ids.at(-1) }]);

  const report = readFileSync(join(home, name, '.agentchart/steward/documents/REPORT.md'), 'utf8');
  expect(report).toContain('dead anchor');
  for (const line of report.split('\n')) expect(output).toContain(line);
});
