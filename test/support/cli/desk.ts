import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { cpSync, existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { built } from '../built.ts';
import { SAMPLE_SEED, TAKES_ALL } from '../sample.ts';
import { makeTemporaryFolder } from '../temporary-folders.ts';
import { runShared } from './run-shared.ts';

export const MAIN = built('cli/main.ts');
export const AGENT = built('test/support/cli/fixtures/desk.ts');
/** The module that agent modules written by tests import. */
export const LIBRARY = pathToFileURL(built('agent/index.ts')).href;

export type Ended = { code: number | null; stdout: string; stderr: string };
type Begun = Ended & { runId: string; events: JsonEvent[] };
export type JsonEvent = RunEvent & { runId: string; seq: number };

export type Environment = Record<string, string | undefined>;
type Call = string | [string, Record<string, unknown>];

/** A turn that calls tools. */
export function calling(...calls: Call[]): ScriptedTurn {
  return {
    toolCalls: calls.map(call =>
      typeof call === 'string' ? { name: call } : { name: call[0], arguments: JSON.stringify(call[1]) },
    ),
  };
}

export const REFUND: Call = ['refund', { orderId: 'A-1', cents: 4200 }];

/** Finished `begin` commands of desks, by script and options. */
const BEGUN = new Map<string, Promise<Begun & { folder: string }>>();

/** One command in so many has a process of its own in `npm test`. */
const ALONE = 16;
let commands = 0;

/** A temporary folder with a script and a store, in which the command line runs as a child process. */
export class Desk {
  readonly folder = makeTemporaryFolder('cli');
  readonly #environment: Environment;
  readonly #turns: readonly ScriptedTurn[];

  constructor(turns: readonly ScriptedTurn[], environment: Environment = {}) {
    this.write('turns.json', JSON.stringify(turns));
    this.#turns = turns;
    this.#environment = environment;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  write(name: string, text: string): string {
    writeFileSync(this.path(name), text);
    return this.path(name);
  }

  /** Starts a command in a process of its own. */
  start(args: readonly string[], environment: Environment = {}): Started {
    return new Started(process.execPath, [MAIN, ...args], this.folder, this.#inherit(environment));
  }

  /** Runs a command to its end in a process of its own, with `input` on its stdin. */
  async runAlone(args: readonly string[], environment: Environment = {}, input = ''): Promise<Ended> {
    const started = this.start(args, environment);
    started.child.stdin.end(input);
    return await started.ended;
  }

  /**
   * Runs a command to its end, with `input` on its stdin. Most commands of a test file share a process and run one
   * after another; each has a process of its own in `npm run test:all`, and one in `ALONE` in `npm test`.
   */
  async run(args: readonly string[], environment: Environment = {}, input = ''): Promise<Ended> {
    commands += 1;
    if (TAKES_ALL || (commands + SAMPLE_SEED) % ALONE === 0)
      return await this.runAlone(args, environment, input);
    return await runShared({ args, cwd: this.folder, environment: this.#inherit(environment), input });
  }

  /**
   * Begins a run of the fixture's agent on the script. Returns its id, its events and the output. A desk with only a
   * script gets a copy of the folder of an equal desk in this test file.
   */
  async begin(...args: string[]): Promise<Begun> {
    if (readdirSync(this.folder).length > 1) return await this.#begin(args);
    const key = JSON.stringify([this.#turns, this.#environment, args]);
    const known = await BEGUN.get(key);
    // An earlier test file of the worker has removed its folders.
    if (known !== undefined && existsSync(known.folder)) {
      cpSync(known.folder, this.folder, { recursive: true });
      const { folder: _, ...ended } = known;
      return ended;
    }
    const begun = this.#begin(args).then(ended => ({ ...ended, folder: this.#copy() }));
    BEGUN.set(key, begun);
    const { folder: _, ...ended } = await begun;
    return ended;
  }

  /** Copies the current folder. */
  #copy(): string {
    const folder = makeTemporaryFolder('begun');
    cpSync(this.folder, folder, { recursive: true });
    return folder;
  }

  async #begin(args: readonly string[]): Promise<Begun> {
    const ended = await this.run(['run', '--agent', AGENT, '--json', ...args, 'go'], this.model);
    const events = eventsOf(ended.stdout);
    return { ...ended, events, runId: events[0]?.runId ?? '' };
  }

  get store(): string {
    return this.path('.agentchart/runs.db');
  }

  get model(): Environment {
    return { AGENTCHART_MODEL: 'scripted:turns.json' };
  }

  async journal(runId: string): Promise<JsonEvent[]> {
    const store = sqlite(this.store);
    const entries = await store.read(runId);
    await store.close();
    return entries.map(({ seq, event }) => ({ ...event, runId, seq }));
  }

  #inherit(environment: Environment): Environment {
    const inherited = Object.entries(process.env).filter(
      ([name]) => !/^(AGENTCHART_|OPENAI_|NO_COLOR$|FORCE_COLOR$|npm_|VITEST|NODE_OPTIONS$)/.test(name),
    );
    return { ...Object.fromEntries(inherited), ...this.#environment, ...environment };
  }
}

/** A running command. */
export class Started {
  readonly child: ChildProcessWithoutNullStreams;
  readonly ended: Promise<Ended>;
  #stdout = '';
  #stderr = '';

  constructor(command: string, args: readonly string[], cwd: string, env: Environment) {
    this.child = spawn(command, args, { cwd, env });
    this.child.stdin.on('error', () => {});
    this.child.stdout.setEncoding('utf8');
    this.child.stderr.setEncoding('utf8');
    this.child.stdout.on('data', chunk => {
      this.#stdout += chunk;
    });
    this.child.stderr.on('data', chunk => {
      this.#stderr += chunk;
    });
    this.ended = new Promise(settle => {
      this.child.on('close', code => settle({ code, stdout: this.#stdout, stderr: this.#stderr }));
    });
  }

  /** Resolves with all output so far once it contains `text`; rejects if the process ends without it. */
  async printed(text: string): Promise<string> {
    const hasIt = () => this.#stdout.includes(text) || this.#stderr.includes(text);
    await new Promise<void>((settle, reject) => {
      const look = () => hasIt() && settle();
      this.child.stdout.on('data', look);
      this.child.stderr.on('data', look);
      this.child.on('close', () =>
        reject(new Error(`ended without "${text}":\n${this.#stdout}\n${this.#stderr}`)),
      );
      look();
    });
    return this.#stdout + this.#stderr;
  }
}

export function eventsOf(stdout: string): JsonEvent[] {
  return stdout
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line));
}

export function typesOf(events: readonly JsonEvent[]): string[] {
  return events.map(({ type }) => type);
}
