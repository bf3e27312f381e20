import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Ledger, LoopState, RoundState, Side, SideState } from './demo-state.ts';
import type { Report } from './server/process-messages.ts';
import { WorkerProcess } from './server/worker-process.ts';
import { type Pace, setupVariables } from './setup.ts';
import { readLedger } from './workers/ledger.ts';

export type RoundOptions = {
  folder: string;
  restartMs: number;
  /** The pace of a side's process, by the number of its start, from 0. */
  paceOf(start: number, side: Side): Pace;
  onChange(): void;
};

const LOOK_MS = 25;

/**
 * One refund on both sides: one process each, with their files in one folder.
 *
 * R1 The sides start together, once both processes are running for the first time.
 * R2 The ledgers are polled from their files; processes do not report payments.
 */
export class Round {
  readonly folder: string;
  readonly #options: RoundOptions;
  readonly #processes: Readonly<Record<Side, WorkerProcess>>;
  readonly #looking: ReturnType<typeof setInterval>;
  #ledgers: Record<Side, Ledger> = { plain: { lines: [], cents: 0 }, chart: { lines: [], cents: 0 } };
  #loop: LoopState | null = null;
  /** Whether the process that reported `#loop` is still running. */
  #isLoopHere = false;
  #runId: string | null = null;
  #port: number | null = null;
  #hasBegun = false;
  #isApprovalPending = false;

  constructor(options: RoundOptions) {
    this.folder = options.folder;
    this.#options = options;
    mkdirSync(options.folder, { recursive: true });
    this.#processes = { plain: this.#makeProcess('plain'), chart: this.#makeProcess('chart') };
    this.#looking = setInterval(() => this.#look(), LOOK_MS);
    for (const side of Object.values(this.#processes)) side.start();
  }

  /** The processes, ledgers and progress of both sides. */
  get state(): RoundState {
    const loop = this.#loop;
    return {
      plain: { ...this.#stateOf('plain'), loop },
      chart: { ...this.#stateOf('chart'), runId: this.#runId },
    };
  }

  /** Kills the side's process. Returns `false` if none is running. */
  kill(side: Side): boolean {
    return this.#processes[side].kill();
  }

  /** Approves the plain loop's request, if it asks. If its process is restarting, approves when it asks again. */
  approvePlain(): void {
    if (this.#loop?.at !== 'askPerson') return;
    this.#isApprovalPending = !this.#isLoopHere || !this.#processes.plain.tell('approve');
  }

  /** Returns the origin of the runs API. Waits up to `waitMs` for a restarting process, then returns `null`. */
  async findChart(waitMs: number): Promise<string | null> {
    const until = performance.now() + waitMs;
    while (this.#port === null) {
      if (performance.now() > until) return null;
      await delay(LOOK_MS);
    }
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Ends both processes. */
  async end(): Promise<void> {
    clearInterval(this.#looking);
    await Promise.all(Object.values(this.#processes).map(side => side.end()));
  }

  #makeProcess(side: Side): WorkerProcess {
    const { folder, restartMs, paceOf, onChange } = this.#options;
    return new WorkerProcess({
      module: `../workers/${side}-worker.ts`,
      restartMs,
      environment: start => setupVariables({ folder, pace: paceOf(start, side) }),
      onReport: report => this.#take(side, report),
      onChange: () => {
        const gone = this.#processes?.[side].state.is !== 'running';
        if (side === 'chart' && gone) this.#port = null;
        if (side === 'plain' && gone) this.#isLoopHere = false;
        onChange();
      },
    });
  }

  #take(side: Side, report: Report): void {
    switch (report.type) {
      case 'ready':
        if (report.port !== undefined) this.#port = report.port;
        this.#begin(side);
        break;
      case 'run':
        this.#runId = report.runId;
        break;
      case 'plain':
        this.#loop = { at: report.at, said: report.said, recorded: report.recorded };
        this.#isLoopHere = true;
        if (this.#isApprovalPending) this.approvePlain();
        break;
    }
    this.#options.onChange();
  }

  #begin(side: Side): void {
    const all = Object.values(this.#processes);
    if (this.#hasBegun) this.#processes[side].tell('begin');
    else if (all.every(({ state }) => state.is === 'running')) {
      this.#hasBegun = true;
      for (const each of all) each.tell('begin');
    }
  }

  #look(): void {
    const before = JSON.stringify(this.#ledgers);
    this.#ledgers = { plain: readLedger(this.#fileOf('plain')), chart: readLedger(this.#fileOf('chart')) };
    if (JSON.stringify(this.#ledgers) !== before) this.#options.onChange();
  }

  #stateOf(side: Side): SideState {
    const { state, kills } = this.#processes[side];
    return { process: state, kills, file: this.#fileOf(side), ledger: this.#ledgers[side] };
  }

  #fileOf(side: Side): string {
    return join(this.folder, `${side}-ledger.txt`);
  }
}
