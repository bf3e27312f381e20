import { request } from 'node:http';
import { EventSource } from 'eventsource';
import type { RunView } from '../../../protocol/run-view.ts';
import { AGENT, type Desk, type Started } from '../cli/desk.ts';
import { type Journaled, until } from './runs-app.ts';

/** `agentchart serve` as a process, on a free port by default. */
export class ServedDesk {
  readonly desk: Desk;
  readonly started: Started;
  readonly url: string;

  private constructor(desk: Desk, started: Started, url: string) {
    this.desk = desk;
    this.started = started;
    this.url = url;
  }

  static async start(
    desk: Desk,
    { args = ['--agent', AGENT], port = 0 }: { args?: string[]; port?: number } = {},
    environment: Record<string, string | undefined> = desk.model,
  ): Promise<ServedDesk> {
    const started = desk.start(['serve', '--port', String(port), ...args], environment);
    let stderr = '';
    started.child.stderr.on('data', chunk => {
      stderr += chunk;
    });
    await started.printed('Press Ctrl-C to stop');
    const [, url = ''] = /listening on (\S+)/.exec(stderr) ?? [];
    return new ServedDesk(desk, started, url);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  async post(path: string, body: object = {}): Promise<Response> {
    const headers = { 'content-type': 'application/json' };
    return await fetch(this.url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  }

  async view(runId: string): Promise<RunView> {
    const look = () => fetch(`${this.url}/runs/${runId}`);
    // The server may close a kept-alive connection just as it is reused.
    return (await (await look().catch(look)).json()) as RunView;
  }

  async begin(): Promise<string> {
    return ((await (await this.post('/runs', { input: 'go' })).json()) as RunView).runId;
  }

  /** The view of the run once `holds` returns true for it. */
  async viewOnce(runId: string, holds: (view: RunView) => boolean): Promise<RunView> {
    return await until(async () => {
      const view = await this.view(runId);
      return holds(view) ? view : undefined;
    });
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM') {
    this.started.child.kill(signal);
    return await this.started.ended;
  }
}

/** A browser's event source of a run: its journal entries as they arrive, across reconnections. */
export class Watcher {
  readonly journal: Journaled[] = [];
  readonly ends: string[] = [];
  readonly #source: EventSource;

  constructor(url: string) {
    this.#source = new EventSource(url);
    this.#source.addEventListener('journal', ({ data }) => this.journal.push(JSON.parse(data)));
    this.#source.addEventListener('end', ({ data }) => {
      this.ends.push(JSON.parse(data).status);
      this.close();
    });
  }

  get seqs(): number[] {
    return this.journal.map(({ seq }) => seq);
  }

  /** Settles when an entry of this type has arrived. */
  async sees(type: Journaled['type']): Promise<Journaled> {
    return await until(() => this.journal.find(entry => entry.type === type));
  }

  async seesEnd(): Promise<string> {
    return await until(() => this.ends[0]);
  }

  close(): void {
    this.#source.close();
  }
}

/**
 * A POST that keeps sending until the response arrives; resolves with its status. Sends again, up to three times, where
 * the server closed the connection before this client had read the response.
 */
export async function upload(
  url: string,
  megabytes: number,
  headers: Record<string, string>,
  again = 3,
): Promise<number> {
  try {
    return await uploadOnce(url, megabytes, headers);
  } catch (error) {
    if (again === 0 || !/EPIPE|ECONNRESET/.test(String(error))) throw error;
    return await upload(url, megabytes, headers, again - 1);
  }
}

function uploadOnce(url: string, megabytes: number, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const sending = request(url, { method: 'POST', headers }, response => {
      response.resume();
      resolve(response.statusCode ?? 0);
      sending.destroy();
    });
    sending.on('error', reject);
    const chunk = Buffer.alloc(1024 * 1024, 0x20);
    const send = (left: number) => {
      if (left === 0) sending.end();
      else if (!sending.destroyed) sending.write(chunk, () => send(left - 1));
    };
    send(megabytes);
  });
}

/** The status and headers of a GET with a custom `Host`. */
export function getAs(
  host: string,
  url: string,
): Promise<{ status: number; headers: NodeJS.Dict<string | string[]> }> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { headers: { host } }, response => {
      response.resume();
      resolve({ status: response.statusCode ?? 0, headers: response.headers });
    });
    asking.on('error', reject);
    asking.end();
  });
}
