import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { HAS_TERMINAL, startOnTerminal } from '../support/examples/npm-start.ts';
import { runProgram } from '../support/examples/run-program.ts';
import { inAll, TAKES_ALL } from '../support/sample.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const start = join(root, 'examples/steward/start.ts');
const documents = join(root, 'examples/steward/documents');
const folders: string[] = [];

function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'agentchart-start-'));
  folders.push(folder);
  return folder;
}

afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** Runs `npm start` without a terminal and without a key. */
async function runStart(cwd: string, ...args: string[]): Promise<{ code: number; output: string }> {
  const { AGENTCHART_MODEL: _, ...env } = process.env;
  const { code, stdout, stderr } = await runProgram(start, args, { cwd, env });
  return { code, output: stdout + stderr };
}

function readReport(cwd: string, name = 'documents'): string {
  return readFileSync(join(cwd, '.agentchart/steward', name, 'REPORT.md'), 'utf8');
}

describe.concurrent('npm start', () => {
  test('rests in one process and is approved by a second; the output names both', async () => {
    const cwd = makeFolder();
    const before = readFileSync(join(documents, 'README.md'), 'utf8');
    for (const _ of TAKES_ALL ? [1, 2] : [1]) {
      const { code, output } = await runStart(cwd);
      expect(output).toContain('using a stand-in at');
      expect(output).toContain('fixed rules, not a language model');
      const pids = [...output.matchAll(/\$ agentchart (\w+) .*\(process (\d+)\)/g)];
      expect(pids.map(match => match[1])).toEqual(['run', 'approve']);
      expect(pids[0]?.[2]).not.toBe(pids[1]?.[2]);
      expect(output).toContain('a second');
      expect(output).toContain('handover.md');
      expect(code).toBe(0);
      for (const line of readReport(cwd).split('\n')) expect(output).toContain(line);
    }
    expect(readFileSync(join(documents, 'README.md'), 'utf8')).toBe(before);
    expect(existsSync(join(documents, 'REPORT.md'))).toBe(false);
  });

  inAll('--yes approves in the same process', async () => {
    const cwd = makeFolder();
    const { code, output } = await runStart(cwd, '--yes');
    expect([...output.matchAll(/\$ agentchart (\w+) /g)].map(match => match[1])).toEqual(['run']);
    expect(readReport(cwd)).toContain('dead anchor');
    expect(code).toBe(0);
  });

  test('--crash kills the process after the write, resumes, and does not write again', async () => {
    const { code, output } = await runStart(makeFolder(), '--crash');
    expect(output).toMatch(/Process (\d+) was killed by SIGKILL/);
    expect(output).toMatch(
      /The journal ends at entry \d+: \d+ approval\.decided, \d+ tool\.started, but no tool\.settled\./,
    );
    expect(output).toMatch(
      /Process \d+ called .*: \d+ approval\.decided, \d+ tool\.started, \d+ tool\.interrupted, \d+ tool\.settled\./,
    );
    expect(output).toMatch(/was last modified at .*: unchanged\./);
    expect(output.match(/tool\.started/g)?.length).toBeLessThanOrEqual(4);
    expect(code).toBe(0);
  });

  inAll('editing a file of the user’s own folder changes the report', async () => {
    const cwd = makeFolder();
    const own = join(cwd, 'notes');
    cpSync(documents, own, { recursive: true });
    await runStart(cwd, own, '--yes');
    const before = readReport(cwd, 'notes');
    writeFileSync(join(own, 'glossary.md'), '# Glossary\n\nSee [nowhere](no-such-file.md).\n');
    const { code } = await runStart(cwd, own, '--yes');
    const after = readReport(cwd, 'notes');
    expect(code).toBe(0);
    expect(before).not.toContain('no-such-file.md');
    expect(after).toContain('no-such-file.md');
    expect(existsSync(join(own, 'REPORT.md'))).toBe(false);
  });

  test.runIf(TAKES_ALL && HAS_TERMINAL)(
    'asks on a terminal, and keeps serving the page until Ctrl-C',
    async () => {
      const terminal = startOnTerminal(makeFolder());
      const url = await terminal.printed(/approve there or here: (http:\S+)/);
      await terminal.printed(/\[a\]pprove/);
      const waiting: unknown = await (
        await fetch(`${url}/runs?status=waiting&agent=documentation-steward`)
      ).json();
      expect(waiting).toMatchObject({ runs: [{ agent: 'documentation-steward', status: 'waiting' }] });
      const { id } = (waiting as { runs: [{ id: string }] }).runs[0];
      terminal.type('a\n');
      await terminal.printed(/The page stays available at (\S+)/);
      const page = await fetch(url, { headers: { accept: 'text/html' } });
      expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('/assets/page.js')]);
      terminal.type('\u0003');
      await terminal.ended;
      // Another server may have the port by now, but not this run.
      const served = await fetch(`${url}/runs/${id}`).then(
        ({ ok }) => ok,
        () => false,
      );
      expect(served).toBe(false);
    },
  );

  test('exits with a usage error for a missing folder', async () => {
    const { code, output } = await runStart(makeFolder(), '/no/such/folder');
    expect(output).toContain('there is no such folder');
    expect(code).toBe(2);
  });
});
