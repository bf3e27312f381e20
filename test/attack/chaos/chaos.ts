import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { statePath } from '../../../machines/step.ts';
import { messageOf } from '../../../protocol/error.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { makeRandom } from '../../crash/plan.ts';
import { LONGEST_BLOCK_MS } from '../cases/busy-meter.ts';
import { type Finding, found } from '../cases/finding.ts';
import { LEASE_MS, ONCE, QUIET, readActs } from './chaos-agent.ts';
import { type Acknowledged, checkEvidence, type Evidence, type RunEvidence } from './chaos-evidence.ts';
import { ChaosPerson } from './chaos-person.ts';
import {
  type ChaosProcess,
  mayUnshare,
  type Place,
  startDriver,
  startServer,
  startWorker,
} from './chaos-process.ts';
import { openStore } from './open-store.ts';

/**
 * Chaos over one database.
 *
 * X1 Servers, workers, command lines and library programs work on the same runs, while people send commands.
 * X2 Processes are killed, die at the engine's fault points, or are stopped for longer than a lease and continue.
 * X3 Acknowledgements are recorded by their receivers, and acts by the tools.
 * X4 At the end, one earlier server remains: it must recover the runs that the others left behind.
 */

export type ChaosOptions = {
  folder: string;
  seed: number;
  /** The length of the chaos phase, in ms, without the recovery. */
  chaosMs: number;
  servers: number;
  drivers: number;
  mostRuns: number;
  /** The address of a PostgreSQL database; without it, the runs are in a file of the folder. */
  database?: string;
};

export type ChaosResult = {
  findings: Finding[];
  runs: number;
  kills: number;
  stops: number;
  acts: number;
  acknowledged: number;
  busyMs: number;
  /** The names of attacks that this machine does not support. */
  skipped: string[];
};

/** Runs that have not ended are stranded after this time without a new entry: thirty leases. */
const PATIENCE_MS = 30 * LEASE_MS;
const PEOPLE = 3;

type Server = { process: ChaosProcess; url: string | null };

export class Chaos {
  readonly #options: ChaosOptions;
  readonly #place: Place;
  readonly #random: () => number;
  readonly #acknowledged: Acknowledged[] = [];
  readonly #mayUnshare = mayUnshare();
  readonly #servers: Server[] = [];
  readonly #drivers: ChaosProcess[] = [];
  readonly #commands: ChaosProcess[] = [];
  #seeds = 0;
  #kills = 0;
  #stops = 0;
  #isCalm = false;
  #quiet: Promise<void> = Promise.resolve();

  constructor(options: ChaosOptions) {
    mkdirSync(options.folder, { recursive: true });
    this.#options = options;
    this.#random = makeRandom(options.seed);
    const compiled = process.env.NODE_COMPILE_CACHE ?? join(options.folder, 'compiled');
    this.#place = {
      folder: options.folder,
      db: options.database ?? join(options.folder, 'runs.db'),
      compiled,
    };
  }

  async run(): Promise<ChaosResult> {
    const store = openStore(this.#place.db);
    try {
      await this.#begin();
      await this.#rage(store);
      await this.#recover(store);
      return await this.#check(store);
    } finally {
      for (const process of this.#all) process.signal('SIGKILL');
      await Promise.all(this.#all.map(({ ended }) => ended));
      await store.close();
    }
  }

  get #all(): ChaosProcess[] {
    return [...this.#servers.map(({ process }) => process), ...this.#drivers, ...this.#commands];
  }

  get #listening(): Server[] {
    return this.#servers.filter(({ process, url }) => !process.isOver && url !== null);
  }

  async #begin(): Promise<void> {
    const { servers, drivers } = this.#options;
    const first = Array.from({ length: servers }, () => this.#startServer());
    await Promise.all(first);
    for (let count = 0; count < drivers; count += 1) this.#startDriver();
  }

  /** Gives every second process its own PID namespace, if the machine allows it. */
  #nextIsInNamespace(): boolean {
    this.#seeds += 1;
    return this.#mayUnshare && this.#seeds % 2 === 0;
  }

  async #startServer(): Promise<void> {
    const [process, listening] = startServer(this.#place, this.#nextIsInNamespace());
    const server: Server = { process, url: null };
    this.#servers.push(server);
    server.url = await listening;
  }

  #startDriver(): void {
    const inNamespace = this.#nextIsInNamespace();
    const isWorker = this.#seeds % 3 === 0;
    const seed = this.#options.seed * 1_000 + this.#seeds;
    this.#drivers.push(
      isWorker ? startWorker(this.#place, inNamespace) : startDriver(this.#place, seed, inNamespace),
    );
  }

  /** Serializes work that must not overlap: lookups with their commands, and kills. */
  async #alone(work: () => Promise<void>): Promise<void> {
    const before = this.#quiet;
    const mine = Promise.withResolvers<void>();
    this.#quiet = mine.promise;
    await before;
    const quiet = join(this.#place.folder, QUIET);
    writeFileSync(quiet, '');
    try {
      await work();
    } finally {
      if (!this.#isCalm) rmSync(quiet, { force: true });
      mine.resolve();
    }
  }

  #makePerson(store: Store): ChaosPerson {
    return new ChaosPerson({
      place: this.#place,
      store,
      random: this.#random,
      server: () => this.#pick(this.#listening)?.url ?? undefined,
      record: acknowledged => this.#acknowledged.push(acknowledged),
      onCommand: command => this.#commands.push(command),
      whileAlive: work => this.#alone(work),
    });
  }

  #pick<Value>(values: readonly Value[]): Value | undefined {
    return values[Math.floor(this.#random() * values.length)];
  }

  async #rage(store: Store): Promise<void> {
    const { chaosMs, mostRuns } = this.#options;
    const end = performance.now() + chaosMs;
    const isOver = () => performance.now() > end;
    const person = this.#makePerson(store);
    const people = Array.from({ length: PEOPLE }, async () => {
      while (!isOver()) {
        if (person.runs < mostRuns && this.#random() < 0.4) await person.begin();
        else await person.act();
        await delay(10 + this.#random() * 60);
      }
    });
    const harm = async () => {
      while (!isOver()) {
        await delay(200 + this.#random() * 600);
        await this.#harm();
      }
    };
    await Promise.all([...people, harm()]);
    this.#isCalm = true;
    await this.#alone(async () => {});
    this.#kills = this.#all.filter(({ isOver, wasKilled }) => isOver && wasKilled).length;
  }

  async #harm(): Promise<void> {
    this.#topUp();
    const victim = this.#pick(this.#all.filter(({ isOver, isStopped }) => !isOver && !isStopped));
    if (victim === undefined) return;
    if (this.#random() < 0.6) {
      this.#stops += 1;
      victim.signal('SIGSTOP');
      void delay(LEASE_MS * (1.2 + this.#random() * 1.3)).then(() => victim.signal('SIGCONT'));
      return;
    }
    await this.#alone(async () => {
      victim.signal('SIGKILL');
      await victim.ended;
    });
  }

  /** Restores the initial number of servers and programs. */
  #topUp(): void {
    const { servers, drivers } = this.#options;
    const alive = this.#servers.filter(({ process }) => !process.isOver).length;
    if (alive < servers) void this.#startServer();
    if (this.#drivers.filter(({ isOver }) => !isOver).length < drivers) this.#startDriver();
  }

  /** Keeps one server, and answers its questions until nothing more happens. */
  async #recover(store: Store): Promise<void> {
    await delay(LEASE_MS * 2.5);
    if (this.#listening.length === 0) await this.#startServer();
    const survivor = this.#pick(this.#listening);
    for (const process of this.#all) if (process !== survivor?.process) process.signal('SIGKILL');
    survivor?.process.signal('SIGCONT');
    const person = this.#makePerson(store);
    let entries = -1;
    let since = performance.now();
    for (;;) {
      const now = await person.answerAll();
      if (now.open === 0) return;
      if (now.entries !== entries) [entries, since] = [now.entries, performance.now()];
      if (performance.now() - since > PATIENCE_MS) return;
      await delay(200);
    }
  }

  async #check(store: Store): Promise<ChaosResult> {
    const evidence = await this.#gather(store);
    const busyMs = Math.max(
      0,
      ...readLines<{ ms: number }>(this.#place.folder, 'blocks').map(({ ms }) => ms),
    );
    const frozen = busyMs > LONGEST_BLOCK_MS ? [found('frozen', `a process worked for ${busyMs} ms`)] : [];
    return {
      findings: [...checkEvidence(evidence), ...frozen],
      runs: evidence.runs.length,
      kills: this.#kills,
      stops: this.#stops,
      acts: evidence.acts.length,
      acknowledged: evidence.acknowledged.length,
      busyMs,
      skipped: this.#mayUnshare ? [] : ['PID namespaces: unshare is not allowed here'],
    };
  }

  async #gather(store: Store): Promise<Evidence> {
    const acknowledged = [
      ...this.#acknowledged,
      ...readLines<Acknowledged>(this.#place.folder, 'acknowledged'),
    ];
    const runs: RunEvidence[] = [];
    for (const { runId, status } of (await store.list({ limit: 1000 })).runs) {
      const events = (await store.read(runId)).map(({ event }) => event);
      const { state } = await loadRun(store, runId);
      const { parent, transcript, next, calls } = state.context;
      const open = calls.map(({ name, callId, status: at }) => `${name} (${callId}) ${at}`);
      const [first] = events;
      const isFork = first?.type === 'run.started' && first.forkOf !== undefined;
      const stands = `${isFork ? 'a fork, ' : ''}${statePath(state)}, ${next?.why}; ${open.join(', ')}`;
      const replayFault = await replay(store, runId);
      runs.push({
        runId,
        status,
        events,
        transcript,
        stands,
        ...(parent === null ? {} : { parent }),
        ...omitUndefined({ replayFault }),
      });
    }
    return { acknowledged, acts: readActs(this.#place.folder), runs, once: ONCE };
  }
}

async function replay(store: Store, runId: string): Promise<string | undefined> {
  try {
    const { equal, problem } = await replayRun(store, runId);
    return equal ? undefined : `entry ${problem?.seq} ${problem?.message}`;
  } catch (error) {
    return messageOf(error);
  }
}

/** A killed process leaves a line complete or not at all. */
export function readLines<Line>(folder: string, file: string): Line[] {
  const path = join(folder, file);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
  return lines.map(line => JSON.parse(line));
}
