import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { providerNames } from '../../adapters/model-from-env.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { sqlite } from '../../stores/sqlite.ts';
import { type StandIn, startStandIn } from '../adapters/stand-in.ts';

/** `npm start` with AGENTCHART_MODEL, the stand-in answering in each provider's wire format. */

type Way = {
  /** The path ahead of the API's own. */
  path: string;
  /** What its variables begin with. Default: its name. */
  variables?: string;
  /** Whether a second process approves. Default: the first does so itself. */
  processes?: 2;
};

const WAYS: Readonly<Record<string, Way>> = {
  openai: { path: '/openai/v1' },
  'openai-chat': { path: '/openai/v1', variables: 'OPENAI' },
  anthropic: { path: '/anthropic' },
  gemini: { path: '/gemini', processes: 2 },
  groq: { path: '/groq/openai/v1' },
  mistral: { path: '/mistral/v1' },
  xai: { path: '/xai/v1' },
  deepseek: { path: '/deepseek' },
  ollama: { path: '/ollama' },
  openrouter: { path: '/openrouter/api/v1' },
  azure: { path: '/azure/openai/v1' },
  cerebras: { path: '/cerebras/v1' },
};

const AT_ONCE = Math.min(4, Math.max(2, availableParallelism()));
const KEY = 'dummy-key-that-nobody-checks';
const start = fileURLToPath(new URL('../../examples/steward/start.ts', import.meta.url));
const home = mkdtempSync(join(tmpdir(), 'agentchart-providers-'));

type Ended = { code: number; output: string };
let standIn: StandIn;
let runs: Map<string, Promise<Ended>>;

beforeAll(async () => {
  standIn = await startStandIn();
  runs = startInTurn(Object.entries(WAYS));
});

afterAll(async () => {
  await Promise.all(runs.values());
  await standIn[Symbol.asyncDispose]();
  rmSync(home, { recursive: true, force: true });
});

function startInTurn(ways: readonly (readonly [string, Way])[]): Map<string, Promise<Ended>> {
  const lanes: Promise<unknown>[] = Array.from({ length: AT_ONCE }, () => Promise.resolve());
  return new Map(
    ways.map(([name, way], index) => {
      const ended = (lanes[index % AT_ONCE] ?? Promise.resolve()).then(() => runStart(name, way));
      lanes[index % AT_ONCE] = ended;
      return [name, ended];
    }),
  );
}

function runStart(name: string, { path, processes, variables = name.toUpperCase() }: Way): Promise<Ended> {
  const cwd = join(home, name);
  mkdirSync(cwd);
  const env = {
    ...process.env,
    AGENTCHART_MODEL: `${name}:stand-in`,
    [`${variables}_API_KEY`]: KEY,
    [`${variables}_BASE_URL`]: standIn.root + path,
    NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache'),
  };
  const args = processes === 2 ? [start] : [start, '--yes'];
  return new Promise(resolve => {
    const child = execFile(process.execPath, args, { cwd, env }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, output: stdout + stderr });
    });
    child.stdin?.end();
  });
}

async function readJournal(name: string): Promise<RunEvent[]> {
  const store = sqlite(join(home, name, '.agentchart/steward/runs.db'));
  const [record] = await store.list({ limit: 2 });
  const journal = await store.read(record?.runId ?? '');
  await store.close();
  return journal.map(entry => entry.event);
}

test('every provider that AGENTCHART_MODEL takes is tried here', () => {
  const others = ['openai-responses', 'scripted'];
  expect(Object.keys(WAYS).sort()).toEqual(
    providerNames()
      .filter(name => !others.includes(name))
      .sort(),
  );
});

test.each(Object.entries(WAYS))(
  '%s: lists, reads in parallel, asks before it writes, and answers',
  async (name, { processes = 1 }) => {
    const { code, output } = (await runs.get(name)) ?? { code: -1, output: '' };
    expect(output).toContain(`Model: ${name}:stand-in (from AGENTCHART_MODEL)`);
    expect(output).toContain('I have 5 findings');
    expect(output).not.toContain(KEY);
    expect([...output.matchAll(/\(process \d+\)/g)]).toHaveLength(processes);
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
  },
);
