import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import OpenAI from 'openai';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { type Host, systemHost } from '../../../engine/host/host.ts';
import { type JsonObject, omitUndefined } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { createRunsApp, type RunsApp, type RunsAppOptions } from '../../../server/app.ts';
import { gatewayConfigSchema } from '../../../server/gateway/config/gateway-config.ts';
import type { GatewayService } from '../../../server/gateway/gateway-service.ts';
import { createGateway } from '../../../server/gateway.ts';
import type { WireEvent } from '../../../server/responses/response-writer.ts';
import { memory } from '../../../stores/memory.ts';
import { makeTemporaryFolder } from '../temporary-folders.ts';

const ORIGIN = 'http://127.0.0.1:4100';
const FIXTURE = resolve('test/support/tools/fixture-server.ts');

/** A host whose clocks run a hundred times faster, so that delays between attempts take milliseconds. */
export const fastHost = hostAt(100);

/** A host on which time passes so many times as fast. */
export function hostAt(speed: number): Host {
  return {
    ...systemHost,
    leaseMs: 100_000 * speed,
    now: () => Date.now() * speed,
    monotonic: () => performance.now() * speed,
    setTimer: (ms, fire, options) => systemHost.setTimer(ms / speed, fire, options),
  };
}

export type Item = JsonObject & { id: string; type: string };
export type Resource = JsonObject & { id: string; status: string; output: Item[] };
export type Failure = { message: string; type: string; code: string | null; param: string | null };

/** A folder with scripts and the log of an MCP server's calls. */
export class Folder {
  readonly path = makeTemporaryFolder('responses');
  readonly models: Record<string, string> = {};
  readonly log = join(this.path, 'calls.log');

  constructor(scripts: Readonly<Record<string, readonly ScriptedTurn[]>>) {
    for (const [name, turns] of Object.entries(scripts)) {
      const file = join(this.path, `${name}.json`);
      writeFileSync(file, JSON.stringify(turns));
      this.models[name] = `scripted:${file}`;
    }
    writeFileSync(this.log, '');
  }

  /** The names of the tools that were called, in order. */
  calls(): string[] {
    return readFileSync(this.log, 'utf8')
      .split('\n')
      .filter(line => line !== '' && !line.includes('/'));
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true, maxRetries: 5 });
  }

  /** The config of the fixture's tool server. */
  server(more: JsonObject = {}): JsonObject {
    return { command: process.execPath, args: [FIXTURE, 'serve', this.log], ...more };
  }
}

/** The endpoint in this process, over a store in memory; each script is a model with the script's name. */
export class Gateway {
  readonly folder: Folder;
  readonly store: Store;
  readonly app: RunsApp;
  readonly service: GatewayService;
  readonly log: string[] = [];
  readonly #close: () => Promise<void>;

  constructor(
    scripts: Readonly<Record<string, readonly ScriptedTurn[]>>,
    {
      config = () => ({}),
      store = memory(),
      host = systemHost,
      model,
      // Long even on the fast clock, since a server process may start slowly.
      hiddenWaitMs = 2_000_000,
      ...options
    }: Partial<RunsAppOptions> & {
      hiddenWaitMs?: number;
      config?: (folder: Folder) => JsonObject;
      model?: string;
      host?: Host;
    } = {},
  ) {
    this.folder = new Folder(scripts);
    this.store = store;
    const gateway = gatewayConfigSchema.parse({ models: this.folder.models, ...config(this.folder) });
    const made = createGateway({
      store,
      host,
      config: gateway,
      hiddenWaitMs,
      log: line => this.log.push(line),
      ...omitUndefined({ model }),
    });
    const { service, agentsByRun } = made;
    this.service = service;
    this.app = createRunsApp({
      store,
      agents: new Map(),
      mounted: [made.messages, made.responses, made.chat],
      log: line => this.log.push(line),
      agentsByRun,
      ...omitUndefined({ tokens: gateway.tokens, corsOrigins: gateway.cors?.origins }),
      admission: service.admission,
      ...options,
    });
    this.#close = () => {
      service.live.close();
      return service.close();
    };
  }

  async close(): Promise<void> {
    await this.#close();
    this.folder.remove();
  }

  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    return await this.app.request(`${ORIGIN}/v1/responses${path}`, {
      method,
      headers: {
        host: '127.0.0.1:4100',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }

  /** An `openai` client whose requests are handled in this process. */
  client(): OpenAI {
    const answer = async (input: string | URL | Request, init?: RequestInit) => {
      const headers = new Headers(init?.headers);
      headers.set('host', '127.0.0.1:4100');
      return await this.app.request(String(input), { ...init, headers });
    };
    return new OpenAI({
      baseURL: `${ORIGIN}/v1`,
      apiKey: 'unused',
      maxRetries: 0,
      fetch: answer as typeof fetch,
    });
  }

  /** Creates a response without streaming. Throws on an error status. */
  async create(body: object): Promise<Resource> {
    return await read(await this.send('POST', '', body));
  }

  /** The body of a GET response, with any status. */
  async read<Body = JsonObject>(path: string): Promise<Body> {
    return (await (await this.send('GET', path)).json()) as Body;
  }

  /** The run that the response started, from the runs API. */
  async run(response: Resource): Promise<JsonObject> {
    const url = `${ORIGIN}/runs/${runOf(response)}`;
    const answer = await this.app.request(url, { headers: { host: '127.0.0.1:4100' } });
    return (await answer.json()) as JsonObject;
  }

  /** Sends a command to the response's run through the runs API; returns the status. */
  async tell(response: Resource, command: string, body: object): Promise<number> {
    const answer = await this.app.request(`${ORIGIN}/runs/${runOf(response)}/${command}`, {
      method: 'POST',
      headers: { host: '127.0.0.1:4100', 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return answer.status;
  }

  async get(id: string): Promise<Resource> {
    return await read(await this.send('GET', `/${id}`));
  }

  /** The events of a streamed response. */
  async stream(body: object): Promise<WireEvent[]> {
    const response = await this.send('POST', '', { ...body, stream: true });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
    return parseStream(text);
  }

  async refused(body: object): Promise<Failure & { status: number }> {
    const response = await this.send('POST', '', body);
    const { error } = (await response.json()) as { error: Failure };
    return { ...error, status: response.status };
  }
}

async function read(response: Response): Promise<Resource> {
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as Resource;
}

/** Parses server-sent events. Throws unless `event` matches the type of the data and `[DONE]` is last. */
export function parseStream(text: string): WireEvent[] {
  const frames = text.split('\n\n').filter(frame => frame !== '' && !frame.startsWith(':'));
  if (frames.pop() !== 'data: [DONE]') throw new Error('the stream does not end with [DONE]');
  return frames.map(frame => {
    const [, name, data] = /^event: (\S+)\ndata: (.+)$/.exec(frame) ?? [];
    const event = JSON.parse(data ?? 'null') as WireEvent;
    if (event?.type !== name) throw new Error(`a frame is not what it says: ${frame}`);
    return event;
  });
}

/** The id of the run that a response started. */
export function runOf({ id }: { id: string }): string {
  return `run_${id.slice('resp_'.length)}`;
}

export type Page = { data: Item[]; has_more: boolean; last_id: string | null };

export function typesOf(items: readonly { type: string }[]): string[] {
  return items.map(({ type }) => type);
}

/** The response of the terminal event. */
export function endOf(events: readonly WireEvent[]): Resource {
  return events.at(-1)?.response as Resource;
}

export function calling(name: string, input: JsonObject = {}): ScriptedTurn {
  return { toolCalls: [{ name, arguments: input }] };
}
