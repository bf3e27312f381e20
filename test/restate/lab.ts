import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Agent } from '../../agent/index.ts';
import { resumeRun } from '../../hosts/restate/followed-run.ts';
import { restateAgent } from '../../hosts/restate/index.ts';
import { callsOver } from '../../hosts/restate/ingress.ts';
import { DRIVE_SERVICE, RUN_OBJECT } from '../../hosts/restate/requests.ts';
import { makeAgents } from './agents.ts';
import { findPort, RestateServer } from './restate-server.ts';

const WORKER = new URL('./worker.ts', import.meta.url);

/** A Restate server, a worker process on it, and agents whose runs they drive. */
export class Lab {
  readonly server: RestateServer;
  readonly #ledger: string;
  #port: number;
  readonly #agents: readonly Agent[];
  #worker: ChildProcess | undefined;

  private constructor(server: RestateServer, ledger: string, port: number) {
    this.server = server;
    this.#ledger = ledger;
    this.#port = port;
    const agents = makeAgents({ note: () => {}, toolMs: 0 });
    this.#agents = agents.map(agent => restateAgent(agent, server.address));
  }

  static async open(folder: string): Promise<Lab> {
    const server = await RestateServer.start(folder);
    const lab = new Lab(server, join(folder, 'ledger.txt'), await findPort());
    await lab.startWorker();
    await server.register(`http://127.0.0.1:${lab.#port}`);
    return lab;
  }

  /** The agent of this name; its runs are driven by the worker. */
  agent(name: string): Agent {
    const agent = this.#agents.find(candidate => candidate.name === name);
    if (agent === undefined) throw new Error(`there is no agent ${name}`);
    return agent;
  }

  /** Starts a worker on the same port, in place of the one before. */
  async startWorker(env: Record<string, string> = {}): Promise<void> {
    await this.killWorker();
    const { ingress, admin } = this.server.address;
    const own = { PORT: String(this.#port), INGRESS: ingress, ADMIN: admin, LEDGER: this.#ledger };
    const worker = fork(WORKER, { env: { ...process.env, RESTATE_LOGGING: 'ERROR', ...own, ...env } });
    this.#worker = worker;
    await Promise.race([
      once(worker, 'message'),
      once(worker, 'exit').then(([code]) => Promise.reject(new Error(`the worker ended with ${code}`))),
    ]);
  }

  /** Starts a worker on another port and registers it; the one before keeps running. Returns how to stop that one. */
  async deployWorker(env: Record<string, string> = {}): Promise<() => Promise<number>> {
    const before = this.#worker;
    this.#worker = undefined;
    this.#port = await findPort();
    await this.startWorker(env);
    await this.server.register(`http://127.0.0.1:${this.#port}`);
    return () => stop(before);
  }

  /** SIGTERM. Returns the exit code: the number of runs that were not handed over. */
  async drainWorker(): Promise<number> {
    const worker = this.#worker;
    this.#worker = undefined;
    return await stop(worker);
  }

  /** SIGKILL. Returns once the process is gone. */
  async killWorker(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    if (worker === undefined || worker.exitCode !== null || worker.signalCode !== null) return;
    worker.kill('SIGKILL');
    await once(worker, 'exit');
  }

  /** What the tools of a run noted: `begin` or `end`, each with the process. */
  notes(runId: string): string[] {
    const text = existsSync(this.#ledger) ? readFileSync(this.#ledger, 'utf8') : '';
    return text.split('\n').filter(line => line.includes(runId));
  }

  begun(runId: string): number {
    return this.notes(runId).filter(line => line.startsWith('begin')).length;
  }

  /** Changes the state of a run's object behind its back, by Restate's admin API. */
  async changeState(runId: string, change: (state: Record<string, unknown>) => Record<string, unknown>) {
    const { admin } = this.server.address;
    const sql = `select key, value_utf8 from state where service_name = '${RUN_OBJECT}' and service_key = '${runId}'`;
    const rows = await callsOver(this.server.address).query(sql);
    const before = Object.fromEntries(rows.map(row => [String(row.key), JSON.parse(String(row.value_utf8))]));
    const bytes = ([key, value]: [string, unknown]) => [key, [...Buffer.from(JSON.stringify(value))]];
    const new_state = Object.fromEntries(Object.entries(change(before)).map(bytes));
    const response = await fetch(new URL(`/services/${RUN_OBJECT}/state`, admin), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ object_key: runId, new_state }),
    });
    assert.ok(response.ok, await response.text());
    await sleep(500);
  }

  /** The rows of an SQL query to Restate. */
  async query(sql: string): Promise<Record<string, unknown>[]> {
    return await callsOver(this.server.address).query(sql);
  }

  /** Whether a worker drives the run, or is about to. */
  async isDelivered(runId: string): Promise<boolean> {
    const meta = await callsOver(this.server.address).run(runId, 'get', undefined);
    return meta !== null && (meta.working !== null || meta.record.owner !== undefined);
  }

  /** Kills the invocations that drive the run, as an operator does in Restate. Returns how many there were. */
  async killDeliveries(runId: string): Promise<number> {
    const sql = `select id from sys_invocation where target_service_name = '${DRIVE_SERVICE}' and status <> 'completed' and starts_with(invoked_by_target, '${RUN_OBJECT}/${runId}/')`;
    const found = await this.query(sql);
    for (const { id } of found) {
      const response = await fetch(new URL(`/invocations/${id}/kill`, this.server.address.admin), {
        method: 'PATCH',
      });
      assert.ok(response.ok, await response.text());
    }
    return found.length;
  }

  /** Has the run delivered, without a handle on it. */
  async resume(runId: string): Promise<void> {
    await resumeRun(callsOver(this.server.address), runId);
  }

  async close(): Promise<void> {
    await this.killWorker();
    await this.server.kill();
  }
}

async function stop(worker: ChildProcess | undefined): Promise<number> {
  if (worker === undefined) throw new Error('there is no worker');
  const exit = once(worker, 'exit');
  worker.kill('SIGTERM');
  const [code] = await exit;
  return Number(code ?? -1);
}

/** Waits until something holds. */
export async function until(holds: () => boolean | Promise<boolean>, ms = 60_000): Promise<void> {
  for (const end = Date.now() + ms; !(await holds()); await sleep(20))
    if (Date.now() > end) throw new Error(`does not hold after ${ms} ms: ${holds}`);
}
