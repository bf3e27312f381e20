import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Check } from '../check.ts';
import { EXPECTED_FAILURES } from './expected-failures.ts';

const PACKAGE = '@modelcontextprotocol/conformance';
const CLIENT = fileURLToPath(new URL('./mcp-client.ts', import.meta.url));
const AGENT = fileURLToPath(new URL('./agent.ts', import.meta.url));
const CLI = fileURLToPath(new URL('../../../cli/main.ts', import.meta.url));

/** The scenarios of the MCP conformance suite for our client of MCP servers, and for `agentchart mcp`. */
export const CONFORMANCE: readonly Check[] = [
  { name: 'mcp-conformance/client', package: PACKAGE, play: playClient },
  { name: 'mcp-conformance/server', package: PACKAGE, play: playServer },
];

/** The revisions that differ on the wire: the last one with sessions, and the one without. */
const REVISIONS = ['2025-11-25', '2026-07-28'];

/** One after the other: the suite itself starts all clients at once, and then has no patience for them. */
async function playClient(command: string): Promise<string> {
  return await inFolder(async folder => {
    const client = ['--command', `${process.execPath} ${CLIENT}`, '--timeout', '60000'];
    const wrong: string[] = [];
    const counts = { passed: 0, 'as expected': 0, skipped: 0 };
    for (const { scenario, revision } of await listClientScenarios(command, folder)) {
      const of = revision === undefined ? [] : ['--spec-version', revision];
      const words = ['client', ...client, '--scenario', scenario, ...of, ...expected(folder)];
      const text = await run(command, words, folder).catch(error => {
        wrong.push(`${scenario} ${revision ?? ''}: ${lastLines(error)}`);
        return undefined;
      });
      if (text === undefined) continue;
      if (/Passed: 0\/0/.test(text)) counts.skipped += 1;
      else if (/Expected failures/.test(text)) counts['as expected'] += 1;
      else counts.passed += 1;
    }
    if (wrong.length > 0) throw new Error(wrong.join('\n'));
    return Object.entries(counts)
      .map(([what, count]) => `${count} ${what}`)
      .join(', ');
  });
}

/** All scenarios, each once for every revision in which it differs on the wire. */
async function listClientScenarios(command: string, folder: string) {
  const [, list = ''] = (await run(command, ['list'], folder)).split('Client scenarios');
  const [ours = ''] = list.split(/^Authorization/m);
  return [...ours.matchAll(/^ {2}- (\S+) \[(.*)\]$/gm)].flatMap(([, scenario = '', of = '']) => {
    const revisions: (string | undefined)[] = REVISIONS.filter(revision => of.split(',').includes(revision));
    return (revisions.length === 0 ? [undefined] : revisions).map(revision => ({ scenario, revision }));
  });
}

async function playServer(command: string): Promise<string> {
  return await inFolder(async folder => {
    const words = [CLI, 'mcp', '--port', '0', '--db', join(folder, 'runs.db'), '--agent', AGENT];
    const server = spawn(process.execPath, words, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
    try {
      const url = await urlOf(server);
      const found: string[] = [];
      for (const revision of REVISIONS) {
        const suite = ['server', '--url', url, '--suite', 'all', '--spec-version', revision];
        const text = await run(command, [...suite, ...expected(folder)], folder).catch(error => {
          throw new Error(lastLines(error));
        });
        found.push(`${revision}: ${/Total: (.*)/.exec(text)?.[1] ?? 'as expected'}`);
      }
      return found.join('; ');
    } finally {
      const exit = once(server, 'exit');
      if (server.exitCode === null && server.kill()) await exit;
    }
  });
}

async function inFolder(play: (folder: string) => Promise<string>): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'agentchart-conformance-'));
  const { client, server } = EXPECTED_FAILURES;
  // The suite reads YAML, of which JSON is a part.
  const lists = { client: Object.keys(client), server: Object.keys(server) };
  writeFileSync(join(folder, 'expected.json'), JSON.stringify(lists));
  try {
    return await play(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function expected(folder: string): string[] {
  return ['--expected-failures', join(folder, 'expected.json')];
}

async function run(command: string, words: readonly string[], cwd: string): Promise<string> {
  return await new Promise((resolve, reject) => {
    const options = { cwd, maxBuffer: 2 ** 26, timeout: 600_000 };
    execFile(process.execPath, [command, ...words], options, (error, stdout, stderr) => {
      const text = `${stdout}\n${stderr}`;
      if (error === null) resolve(text);
      else reject(new Error(text, { cause: error }));
    });
  });
}

function lastLines(error: unknown): string {
  return String(error instanceof Error ? error.message : error)
    .trim()
    .split('\n')
    .slice(-12)
    .join('\n');
}

async function urlOf(server: ChildProcess): Promise<string> {
  let text = '';
  return await new Promise((resolve, reject) => {
    const take = (chunk: Buffer) => {
      text += chunk;
      const [, url] = /listening on (\S+)/.exec(text) ?? [];
      if (url !== undefined) resolve(url);
    };
    server.stdout?.on('data', take);
    server.stderr?.on('data', take);
    server.on('exit', code => reject(new Error(`agentchart mcp ended with ${code}:\n${text}`)));
  });
}
