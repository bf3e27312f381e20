import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { ProcessRuntime } from './find-runtimes.ts';
import { expectAnswer, expectSame, type Outcome, report } from './program/outcome.ts';

/** The checks of runtimes with processes and disks. */

type Place = {
  /** An empty project, in which the package is installed and the programs are compiled. */
  project: string;
  /** The origin of the stand-in. */
  provider: string;
};

/** Runs all checks in a runtime. */
export async function checkProcesses(runtime: ProcessRuntime, place: Place): Promise<Outcome> {
  const desk = new Desk(runtime, place);
  return {
    ...(await desk.checkProgram()),
    '`kill -9` during a tool, then resumed': await report(desk.checkKill()),
    '`agentchart run` and `approve`': await report(desk.checkCommands()),
    '`agentchart serve`': await report(desk.checkServer()),
  };
}

type Ended = { code: number | null; output: string; errors: string };

class Desk {
  readonly #command: readonly string[];
  readonly #project: string;
  readonly #provider: string;
  readonly #folder: string;

  constructor({ command }: ProcessRuntime, { project, provider }: Place) {
    this.#command = command;
    this.#project = project;
    this.#provider = provider;
    this.#folder = mkdtempSync(join(project, 'run-'));
  }

  async checkProgram(): Promise<Outcome> {
    const { output, errors } = await readAll(this.#start('process.js', this.#provider));
    const outcome = output.trim().split('\n').at(-1) ?? '';
    return outcome.startsWith('{') ? JSON.parse(outcome) : { 'the programs start': errors || output };
  }

  async checkKill(): Promise<void> {
    const [database, calls] = [join(this.#folder, 'killed.db'), join(this.#folder, 'calls.txt')];
    const words = ['killed.js', this.#provider, database, calls];
    const killed = this.#start(...words, 'hang');
    const ended = once(killed, 'close');
    const errors = text(killed.stderr);
    const first = await Promise.race([once(killed.stdout, 'data'), ended]);
    if (String(first[0]).trim() !== 'refunding') throw new Error(`Did not refund: ${first} ${await errors}`);
    killed.kill('SIGKILL');
    await ended;
    const { output, errors: problems } = await readAll(this.#start(...words));
    if (output === '') throw new Error(problems);
    expectAnswer(JSON.parse(output));
    const lines = readFileSync(calls, 'utf8').trim().split('\n').sort();
    expectSame(
      lines.map(line => line.split(' ')[0]),
      ['find_customer', 'find_order', 'refund', 'refund'],
    );
    expectSame(lines[2], lines[3]);
  }

  async checkCommands(): Promise<void> {
    const database = join(this.#folder, 'commands.db');
    const shared = ['--db', database, '--agent', join(this.#project, 'cli-agent.js'), '--json'];
    const asked = await readAll(this.#agentchart('run', ...shared, 'Refund order A-1001.'));
    expectSame([asked.code, asked.code === 3 ? '' : asked.errors], [3, '']);
    const { runId } = JSON.parse(asked.output.split('\n')[0] ?? '');
    const approved = await readAll(this.#agentchart('approve', ...shared, runId, 'call_refund'));
    expectSame([approved.code, approved.code === 0 ? '' : approved.errors], [0, '']);
  }

  async checkServer(): Promise<void> {
    const server = this.#agentchart('serve', '--port', '0', '--db', join(this.#folder, 'commands.db'));
    const ended = once(server, 'close');
    try {
      const address = await readAddress(server);
      const listed = await fetch(`${address}/runs`);
      const { runs } = (await listed.json()) as { runs: { status: string }[] };
      expectSame(
        runs.map(({ status }) => status),
        ['finished'],
      );
      const page = await fetch(address, { headers: { accept: 'text/html' } });
      expectSame((await page.text()).includes('/assets/page.js'), true);
    } finally {
      server.kill('SIGTERM');
    }
    expectSame(await ended, [0, null]);
  }

  #agentchart(...words: string[]) {
    return this.#start('node_modules/agentchart/dist/cli/main.js', ...words);
  }

  #start(...words: string[]) {
    const [file = '', ...first] = this.#command;
    return spawn(file, [...first, ...words], {
      cwd: this.#project,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        AGENTCHART_MODEL: 'openai-chat:any',
        OPENAI_BASE_URL: `${this.#provider}/v1`,
        OPENAI_API_KEY: 'none',
        NO_COLOR: '1',
      },
    });
  }
}

async function readAll(child: ChildProcessByStdio<null, Readable, Readable>): Promise<Ended> {
  const closed = once(child, 'close');
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = await closed;
  return { code, output, errors };
}

/** The first address that a server prints. */
async function readAddress({ stderr }: { stderr: Readable }): Promise<string> {
  let printed = '';
  for await (const piece of stderr) {
    printed += piece;
    const address = /http:\/\/[\w.:]+/.exec(printed)?.[0];
    if (address !== undefined) return address;
  }
  throw new Error(`The server ended without an address: ${printed}`);
}
