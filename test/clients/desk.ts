import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { environmentOf } from '../../examples/stand-in/wire/ways.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { RunView } from '../../protocol/run-view.ts';
import type { Client } from './client.ts';
import type { Script, WireName } from './upstream/script.ts';
import { PATIENCE_MS, Upstream } from './upstream/upstream.ts';
import { WIRES } from './upstream/wires.ts';

const CLI = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));
/** The token of the gateway and the key of its clients. */
const KEY = 'test-key';

export type Ended = { code: number | null; stdout: string; stderr: string };

type DeskOptions = {
  client: Client;
  /** The file that starts the client. */
  command: string;
  wire: WireName;
  scripts: readonly Script[];
  /** More of the gateway's configuration. */
  config?: JsonObject;
  /** What the client works on: file names and contents. */
  files?: Readonly<Record<string, string | Uint8Array>>;
};

/** A terminal of tmux with a client in it. */
type Terminal = {
  /** Types a line. */
  write(line: string): void;
  press(key: 'Escape' | 'Enter'): void;
  /** What is on the screen, for a person who looks for a fault. */
  readonly screen: string;
  close(): void;
};

/**
 * A client at work: the upstream, the gateway in front of it, and a home and a folder of the client's own. Every
 * process gets an environment of its own, and nothing of this one.
 */
export class Desk implements AsyncDisposable {
  readonly upstream: Upstream;
  readonly client: Client;
  readonly wire: WireName;
  /** Holds all of the below. */
  readonly folder: string;
  readonly home: string;
  /** The folder that the client works in. */
  readonly work: string;
  readonly #command: string;
  readonly #processes = new Set<ChildProcess>();
  #gateway: ChildProcess | undefined;
  #log = '';
  #port = 0;
  #terminal: Terminal | undefined;
  /** If this process is stopped, nothing that it started goes on. */
  readonly #killAll = () => {
    for (const child of [...this.#processes, this.#gateway]) child?.kill('SIGKILL');
  };

  private constructor(upstream: Upstream, { client, command, wire }: DeskOptions) {
    this.upstream = upstream;
    this.client = client;
    this.wire = wire;
    this.#command = command;
    this.folder = realpathSync(mkdtempSync(join(tmpdir(), 'agentchart-clients-')));
    this.home = join(this.folder, 'home');
    this.work = join(this.folder, 'work');
    process.on('exit', this.#killAll);
  }

  static async open(options: DeskOptions): Promise<Desk> {
    const desk = new Desk(await Upstream.start(options.scripts), options);
    const { model } = WIRES.find(({ name }) => name === desk.wire) ?? {};
    const config: JsonObject = { models: { [desk.client.model]: model ?? '' }, ...options.config };
    desk.#write('gateway.json', JSON.stringify(config));
    for (const [name, content] of Object.entries(options.files ?? {})) desk.#write(`work/${name}`, content);
    mkdirSync(desk.work, { recursive: true });
    await desk.startGateway();
    for (const [name, content] of Object.entries(desk.client.settings(desk.place)))
      desk.#write(`home/${name}`, content);
    return desk;
  }

  /** Where the client finds the gateway. */
  get place() {
    return { url: `http://127.0.0.1:${this.#port}`, key: KEY, work: this.work, model: this.client.model };
  }

  /** What the gateway has printed. */
  get log(): string {
    return this.#log;
  }

  /** Starts `agentchart serve`; again on the same port, once it was killed. */
  async startGateway(): Promise<void> {
    const words = ['serve', '--config', join(this.folder, 'gateway.json'), '--port', String(this.#port)];
    const { AGENTCHART_MODEL: _, ...variables } = environmentOf(this.wire, this.upstream.root);
    const child = spawn(process.execPath, [CLI, ...words, '--db', join(this.folder, 'runs.db')], {
      cwd: this.folder,
      env: { ...variables, ...this.#environment(), AGENTCHART_TOKEN: KEY },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#gateway = child;
    const url = await new Promise<string>((resolve, reject) => {
      const take = (chunk: Buffer) => {
        this.#log += chunk;
        const [, found] = /listening on (\S+)/.exec(this.#log.slice(begun)) ?? [];
        if (found !== undefined) resolve(found);
      };
      const begun = this.#log.length;
      child.stdout.on('data', take);
      child.stderr.on('data', take);
      child.on('exit', code => reject(new Error(`the gateway ended with ${code}:\n${this.#log}`)));
    });
    this.#port = Number(new URL(url).port);
  }

  /** SIGKILL. Resolves once the process is gone. */
  async killGateway(): Promise<void> {
    const gateway = this.#gateway;
    this.#gateway = undefined;
    await end(gateway, 'SIGKILL');
  }

  /** Has the client work on a prompt until it ends. Fails if it ends with another code than 0. */
  async ask(prompt: string, options: { continues?: boolean; image?: string } = {}): Promise<Ended> {
    const ended = await this.begin(prompt, options).ended;
    if (ended.code === 0) return ended;
    throw new Error(`the client ended with ${ended.code}:\n${ended.stdout}\n${ended.stderr}`);
  }

  /** Starts the client on a prompt. */
  begin(
    prompt: string,
    options: { continues?: boolean; image?: string } = {},
  ): { ended: Promise<Ended>; signal: (signal: NodeJS.Signals) => void } {
    return this.#spawn(this.#command, this.client.words(this.place, { prompt, ...options }), {
      ...this.#environment(),
      ...this.client.variables(this.place),
    });
  }

  /**
   * As `ask`, with `agentchart code`, whose gateway has the same models and the store `code.db`. Settings and variables
   * name the other gateway.
   */
  async code(name: string, prompt: string): Promise<Ended> {
    const [bin, temporary] = [join(this.folder, 'bin'), join(this.folder, 'tmp')];
    for (const folder of [bin, temporary]) mkdirSync(folder, { recursive: true });
    if (!existsSync(join(bin, name))) symlinkSync(this.#command, join(bin, name));
    const own = ['--config', join(this.folder, 'gateway.json'), '--model', this.client.model];
    const words = ['code', name, ...own, '--db', join(this.folder, 'code.db'), '--'];
    const { AGENTCHART_MODEL: _, ...variables } = environmentOf(this.wire, this.upstream.root);
    const environment = this.#environment();
    return await this.#spawn(
      process.execPath,
      [CLI, ...words, ...this.client.words(this.place, { prompt })],
      {
        ...this.client.variables(this.place),
        ...variables,
        ...environment,
        PATH: `${bin}:${environment.PATH}`,
        TMPDIR: temporary,
      },
    ).ended;
  }

  /** Starts the client in a terminal, with its words and its variables. */
  openTerminal(words: readonly string[], variables: Readonly<Record<string, string>>): Terminal {
    const place = ['-S', join(this.folder, 'tmux'), '-f', '/dev/null'];
    const run = (...args: string[]) => spawnSync('tmux', [...place, ...args], { encoding: 'utf8' });
    const tmux = (...args: string[]) => {
      const { status, stderr } = run(...args);
      if (status !== 0) throw new Error(`tmux ${args[0]}: ${stderr}`);
    };
    const own = Object.entries({ ...this.#environment(), ...variables });
    const command = ['env', '-i', ...own.map(([name, value]) => `${name}=${value}`), this.#command, ...words];
    this.#terminal?.close();
    tmux('new-session', '-d', '-x', '160', '-y', '50', '-c', this.work, ...command);
    const terminal: Terminal = {
      write: line => {
        tmux('send-keys', '-l', line);
        tmux('send-keys', 'Enter');
      },
      press: key => tmux('send-keys', key),
      get screen() {
        return run('capture-pane', '-p').stdout;
      },
      close: () => {
        this.#terminal = undefined;
        // Nothing is left of it if the client has ended.
        run('kill-server');
      },
    };
    this.#terminal = terminal;
    return terminal;
  }

  #spawn(command: string, words: readonly string[], env: Readonly<Record<string, string>>) {
    const child = spawn(command, words, {
      cwd: this.work,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: PATIENCE_MS,
      killSignal: 'SIGKILL',
    });
    this.#processes.add(child);
    const texts = { stdout: '', stderr: '' };
    child.stdout.on('data', chunk => (texts.stdout += chunk));
    child.stderr.on('data', chunk => (texts.stderr += chunk));
    const ended = once(child, 'close').then(([code]) => {
      this.#processes.delete(child);
      return { code, ...texts };
    });
    return { ended, signal: (signal: NodeJS.Signals) => void child.kill(signal) };
  }

  read(file: string): string {
    return readFileSync(join(this.work, file), 'utf8');
  }

  /** The runs that the page lists, newest first. */
  async runs(): Promise<RunView[]> {
    const response = await fetch(`${this.place.url}/runs?limit=100`, {
      headers: { authorization: `Bearer ${KEY}` },
    });
    if (!response.ok) throw new Error(`GET /runs: ${response.status} ${await response.text()}`);
    const { runs } = (await response.json()) as { runs: RunView[] };
    return runs;
  }

  /** Writes down what the upstream and the gateway saw. Returns the folder. */
  writeRecord(): string {
    const lines = this.upstream.seen.map(({ headers: _, ...seen }) => JSON.stringify(seen));
    this.#write('requests.jsonl', lines.join('\n'));
    this.#write('gateway.log', this.#log);
    if (this.#terminal !== undefined) this.#write('screen.txt', this.#terminal.screen);
    return this.folder;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.off('exit', this.#killAll);
    this.#terminal?.close();
    for (const child of this.#processes) await end(child, 'SIGKILL');
    await end(this.#gateway, 'SIGTERM');
    await this.upstream.close();
  }

  remove(): void {
    // Its socket is in the folder.
    this.#terminal?.close();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #environment(): Record<string, string> {
    const PATH = `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;
    return {
      PATH,
      HOME: this.home,
      TERM: 'xterm-256color',
      LANG: 'C.UTF-8',
      NO_PROXY: '127.0.0.1,localhost',
    };
  }

  #write(name: string, content: string | Uint8Array): void {
    const file = join(this.folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
}

async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill(signal);
  await exit;
}
