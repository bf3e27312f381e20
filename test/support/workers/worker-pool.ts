import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { listAll, type RunRecord, type Store } from '../../../protocol/store.ts';
import { postgres } from '../../../stores/postgres.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { built } from '../built.ts';
import { makeTemporaryFolder } from '../temporary-folders.ts';
import type { Pace } from './fixtures/refunds.ts';

export const REFUNDS = 'test/support/workers/fixtures/refunds.ts';

/** A process of `agentchart worker`, or another command. */
export class PoolProcess {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  output = '';

  constructor(command: readonly string[], environment: Record<string, string>) {
    const [file = '', ...args] = command;
    this.child = spawn(file, args, {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.child.stdout, this.child.stderr])
      stream?.setEncoding('utf8').on('data', text => {
        this.output += text;
      });
    this.ended = new Promise(settle => this.child.once('close', code => settle(code)));
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Resolves once the output has the text. Rejects if the process ends before. */
  async prints(text: string): Promise<string> {
    while (!this.output.includes(text)) {
      if (this.child.exitCode !== null || this.child.signalCode !== null)
        throw new Error(`ended without "${text}": ${this.output}`);
      await delay(10);
    }
    return this.output;
  }
}

/** Runs of one agent on one store, and the processes that drive them. */
export class WorkerPool {
  readonly folder = makeTemporaryFolder('workers');
  readonly address: string;
  readonly store: Store;
  readonly #processes = new Set<PoolProcess>();

  /** `url` is a PostgreSQL database; without it, the runs are in a file. */
  constructor(url?: string) {
    this.address = url ?? join(this.folder, 'runs.db');
    this.store = url === undefined ? sqlite(this.address) : postgres(url);
  }

  get ledger(): string {
    return join(this.folder, 'ledger');
  }

  /** Starts a command of the command line; resolves once it works. */
  async start(args: readonly string[], pace: Partial<Pace> = {}, prefix: readonly string[] = []) {
    const command = [...prefix, process.execPath, built('cli/main.ts'), ...args, '--db', this.address];
    const started = new PoolProcess(command, {
      POOL_PACE: JSON.stringify({ ledger: this.ledger, ...pace }),
      NODE_NO_WARNINGS: '1',
    });
    this.#processes.add(started);
    await started.prints('Press Ctrl-C');
    return started;
  }

  async startWorker(pace: Partial<Pace> = {}, args: readonly string[] = [], prefix: readonly string[] = []) {
    return await this.start(['worker', '--agent', built(REFUNDS), ...args], pace, prefix);
  }

  /** Commits runs that no process drives, as `serve --no-drive` does. */
  async begin(count: number, options: { version?: string } = {}): Promise<string[]> {
    const agent = createAgent({ name: 'refunds', model: scripted([]), store: this.store, ...options });
    const started = Array.from({ length: count }, () => agent.input('Refund A-1.'));
    for (const event of started) await this.store.create(event);
    return started.map(({ runId }) => runId);
  }

  async records(): Promise<RunRecord[]> {
    const records: RunRecord[] = [];
    for await (const record of listAll(this.store)) records.push(record);
    return records;
  }

  /** How many runs have each status. */
  async tally(): Promise<Record<string, number>> {
    const tally: Record<string, number> = {};
    for (const { status } of await this.records()) tally[status] = (tally[status] ?? 0) + 1;
    return tally;
  }

  /** Waits until no run has something to do. Returns false if that takes longer than `ms`. */
  async rests(ms = 60_000): Promise<boolean> {
    return await this.until(async () => (await this.tally()).running === undefined, ms);
  }

  async until(holds: () => boolean | Promise<boolean>, ms = 60_000): Promise<boolean> {
    for (const end = performance.now() + ms; performance.now() < end; ) {
      if (await holds()) return true;
      await delay(50);
    }
    return false;
  }

  /** The lines of the ledger with this word: the run, the process and the agent's version of each. */
  noted(word: 'begin' | 'paid'): { runId: string; pid: number; version: string }[] {
    const lines = existsSync(this.ledger) ? readFileSync(this.ledger, 'utf8').trim().split('\n') : [];
    return lines.flatMap(line => {
      const [noted, runId = '', pid = '', version = ''] = line.split(' ');
      return noted === word ? [{ runId, pid: Number(pid), version }] : [];
    });
  }

  /** The runs whose payment began more than once. */
  doubles(): string[] {
    const runs = this.noted('begin').map(({ runId }) => runId);
    return runs.filter((runId, index) => runs.indexOf(runId) !== index);
  }

  /** The types of a run's entries. */
  async words(runId: string): Promise<string[]> {
    return (await this.store.read(runId)).map(({ event }) => event.type);
  }

  /** Whether the payment of a run that waits is in doubt. */
  async isInDoubt(runId: string): Promise<boolean> {
    return (await this.words(runId)).some(word => word === 'tool.interrupted' || word === 'tool.doubted');
  }

  async close(): Promise<void> {
    for (const { child } of this.#processes) child.kill('SIGKILL');
    await Promise.all([...this.#processes].map(({ ended }) => ended));
    await this.store.close();
  }
}
