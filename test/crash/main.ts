import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { messageOf } from '../../protocol/error.ts';
import { POSTGRES_BIN, type PostgresServer, startPostgres } from '../support/stores/postgres-server.ts';
import { removeTemporaryFolders } from '../support/temporary-folders.ts';
import { killWorkers } from '../support/workers/kill-workers.ts';
import { WorkerPool } from '../support/workers/worker-pool.ts';
import { findAgent } from './agents.ts';
import { buildWorker } from './build-worker.ts';
import { SERVER } from './open-store.ts';
import { proveOutages } from './outages/prove-outages.ts';
import { type Proof, prove, tallyOf } from './prove.ts';
import { describeFaults, Matrix } from './run-matrix.ts';
import { readScenario } from './scenario.ts';

const HELP = `Kills processes at every point of a run and checks how the run ends.

  npm run crash -- [--scenarios N] [--agents NAME,…] [--seed N] [--lanes N] [--json]
  npm run crash -- --store postgres [--scenarios N] …
  npm run crash -- --workers [--store postgres]   kills workers: 200 runs, 3 workers, 60 kills
  npm run crash -- --outages                     PostgreSQL fails with 40 runs in flight; store calls of idle runs
  npm run crash -- --only SCENARIO [--json]      such as batch:tool.after#1+append.before#2

  --store NAME   sqlite (default), or postgres: a server of its own, from PostgreSQL on this machine
  --scenarios N  total number without the control: all single kills, then double kills (default 4000);
                 with postgres a sample, a third of it double kills (default 600)
  --agents       only these of the agents
  --seed N       selects the double kills (default 1)
  --lanes N      concurrent processes (default: one per core, at least 2)
  --only         run one scenario and keep its folder
  --json         print a line of JSON at the end`;

const { values: options } = parseArgs({
  options: {
    store: { type: 'string', default: 'sqlite' },
    scenarios: { type: 'string' },
    agents: { type: 'string' },
    seed: { type: 'string', default: '1' },
    lanes: { type: 'string', default: String(Math.max(2, availableParallelism())) },
    only: { type: 'string' },
    workers: { type: 'boolean', default: false },
    outages: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

/** The scenarios by default, and the single kills of the naive engine: about one in three makes it fail. */
const SCENARIOS = { sqlite: '4000', postgres: '600' };
const CONTROLS = { sqlite: 240, postgres: 60 };

/** The least number of scenarios whose kills all fired; fewer prove too little. */
const LEAST_SCENARIOS = 3900;

/** The same for a server, as a share: its replies come in another order each time, so a few points do not occur. */
const LEAST_SHARE = 0.95;

function readCount(name: 'scenarios' | 'seed' | 'lanes'): number {
  const given = options[name] ?? SCENARIOS[storeName()];
  const value = Number(given);
  if (Number.isInteger(value) && value > 0) return value;
  throw new Error(`--${name}: expected a whole number above 0, and got "${given}".`);
}

function storeName(): keyof typeof SCENARIOS {
  const { store } = options;
  if (store === 'sqlite' || store === 'postgres') return store;
  throw new Error(`--store: expected sqlite or postgres, and got "${store}".`);
}

/** Starts PostgreSQL if the runs are to be stored there. A crash of a client needs no disk: the server does not sync. */
async function startServer(): Promise<PostgresServer | null> {
  if (storeName() === 'sqlite') return null;
  requirePostgres();
  const server = await startPostgres(['max_connections=200']);
  process.env[SERVER] = server.url;
  return server;
}

function requirePostgres(): void {
  if (POSTGRES_BIN === undefined)
    throw new Error('PostgreSQL is not installed. On Debian: apt-get install postgresql.');
}

async function runOne(name: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'agentchart-crash-'));
  const server = await startServer();
  const matrix = new Matrix({ worker: await buildWorker(folder), folder, lanes: 1, keep: true });
  const results = await matrix.run([readScenario(name)]);
  await server?.stop();
  const { lost, doubles, doubted, notFired } = tallyOf(results);
  for (const fault of results.flatMap(describeFaults)) console.error(fault);
  if (options.json) console.log(JSON.stringify({ scenario: name, lost, doubles, doubted, notFired }));
  else
    console.log(
      `lost ${lost}, silent doubles ${doubles}, in doubt ${doubted}; kept in ${results[0]?.folder}`,
    );
  process.exitCode = lost + doubles + notFired > 0 ? 1 : 0;
}

async function runAll(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'agentchart-crash-'));
  const scenarios = readCount('scenarios');
  const server = await startServer();
  const progress = new Progress();
  const proof = await prove({
    worker: await buildWorker(folder),
    folder,
    lanes: readCount('lanes'),
    scenarios,
    ...(options.agents !== undefined && { agents: options.agents.split(',').map(findAgent) }),
    seed: readCount('seed'),
    // A COMMIT of SQLite; in PostgreSQL an append is one statement.
    ...(server !== null && {
      singles: Math.ceil((scenarios * 2) / 3),
      unreached: ['commit.before'],
      mayMiss: true,
    }),
    controls: CONTROLS[storeName()],
    onPhase: (phase, planned) => progress.begin(phase, planned),
    onResult: () => progress.advance(),
  });
  progress.end();
  await server?.stop();
  removeTemporaryFolders();
  const least = server === null ? Math.min(LEAST_SCENARIOS, scenarios) : scenarios * LEAST_SHARE;
  const tooFew = options.agents === undefined && proof.scenarios < least;
  if (tooFew) proof.problems.push(`only ${proof.scenarios} scenarios were killed and continued to their end`);
  for (const problem of proof.problems) console.error(problem);
  console.log(options.json ? JSON.stringify(proof) : describe(proof));
  if (proof.problems.length === 0) return rmSync(folder, { recursive: true, force: true });
  console.error('Rerun one of them: npm run crash -- --only SCENARIO');
  process.exitCode = 1;
}

/** Kills workers of `agentchart worker` while runs are in progress, and prints what became of the runs. */
async function runWorkers(): Promise<void> {
  const server = await startServer();
  const pool = new WorkerPool(server?.url);
  const killed = await killWorkers(pool, { runs: 200, workers: 3, kills: 60, pauseMs: 300 });
  await pool.close();
  await server?.stop();
  removeTemporaryFolders();
  console.log(JSON.stringify(killed));
  if (killed.lost + killed.doubles > 0 || killed.struck < killed.kills / 4) process.exitCode = 1;
}

/** Lets PostgreSQL fail in each way while runs are in flight, and prints a line of JSON for each. */
async function runOutages(): Promise<void> {
  requirePostgres();
  const problems = await proveOutages(outcome => console.log(JSON.stringify(outcome)));
  removeTemporaryFolders();
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}

const LOG_INTERVAL_MS = 60_000;

/** Shows the progress: on a terminal in place, else as a line when a phase begins and ends, and every minute. */
class Progress {
  #phase = '';
  #planned = 0;
  #done = 0;
  readonly #timer = process.stderr.isTTY
    ? undefined
    : setInterval(() => this.#log(), LOG_INTERVAL_MS).unref();

  begin(phase: string, planned: number): void {
    this.#finish();
    [this.#phase, this.#planned, this.#done] = [phase, planned, 0];
    if (process.stderr.isTTY) this.#show();
    else this.#log();
  }

  advance(): void {
    this.#done += 1;
    if (process.stderr.isTTY) this.#show();
  }

  end(): void {
    clearInterval(this.#timer);
    this.#finish();
  }

  #finish(): void {
    if (this.#planned === 0) return;
    if (process.stderr.isTTY) process.stderr.write('\n');
    else this.#log();
  }

  #show(): void {
    process.stderr.write(`\r${this.#describe()}`);
  }

  #log(): void {
    if (this.#planned > 0) process.stderr.write(`${this.#describe()}\n`);
  }

  #describe(): string {
    return `${this.#phase}: ${this.#done} of ${this.#planned}`;
  }
}

function describe({ control, ...proof }: Proof): string {
  return [
    `scenarios      ${proof.scenarios}`,
    `processes      ${proof.processes}`,
    `lost           ${proof.lost}`,
    `silent doubles ${proof.doubles}`,
    `in doubt       ${proof.doubted}`,
    `seconds        ${proof.seconds.toFixed(0)}`,
    `control        ${control.doubles} silent doubles in ${control.scenarios} scenarios of the naive engine`,
  ].join('\n');
}

try {
  if (options.help) console.log(HELP);
  else if (options.workers) await runWorkers();
  else if (options.outages) await runOutages();
  else if (options.only !== undefined) await runOne(options.only);
  else {
    await runAll();
    if (storeName() === 'postgres') await runOutages();
  }
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 2;
}
