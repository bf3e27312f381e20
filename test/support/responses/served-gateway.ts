import { openaiChat } from '../../../adapters/openai-chat.ts';
import { type Agent, createAgent } from '../../../agent/agent.ts';
import type { AgentOptions } from '../../../agent/agent-options.ts';
import { type Host, systemHost } from '../../../engine/host/host.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { readJournal } from '../../../engine/journal/read-journal.ts';
import { hasEnded, statusOf } from '../../../machines/status.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import type { AccessRecord as RequestRecord } from '../../../server/access/request-record.ts';
import { createRunsApp } from '../../../server/app.ts';
import { gatewayConfigSchema } from '../../../server/gateway/config/gateway-config.ts';
import { createGateway, type Gateway } from '../../../server/gateway.ts';
import { createRunWorker } from '../../../server/runs/run-worker.ts';
import { type Serving, serveRuns } from '../../../server/serve.ts';
import { memory } from '../../../stores/memory.ts';
import { nonDrivingStore } from '../../../stores/non-driving-store.ts';
import { until } from '../server/runs-app.ts';
import { GatedProvider } from './gated-provider.ts';

/** The APIs whose requests end with their connection, and a body of each. */
const ENDING = {
  Messages: {
    path: '/v1/messages',
    body: { model: 'desk', max_tokens: 100, messages: [{ role: 'user', content: 'go' }] },
  },
  'Chat Completions': {
    path: '/v1/chat/completions',
    body: { model: 'desk', messages: [{ role: 'user', content: 'go' }] },
  },
  'Responses with store: false': {
    path: '/v1/responses',
    body: { model: 'desk', input: 'go', store: false },
  },
} as const;
export type Api = keyof typeof ENDING;
export const APIS = Object.keys(ENDING) as Api[];

export type Asking = { answer: Promise<Response>; leave(): void };

/**
 * A gateway on a socket, before an upstream on a socket. Its model is an agent with `tools`. `elsewhere`: a worker on the
 * same store drives the runs, as with `serve --no-drive`.
 */
export class ServedGateway {
  readonly provider: GatedProvider;
  readonly store: Store;
  readonly gateway: Gateway;
  readonly log: string[];
  /** The requests whose answers are over. */
  readonly answered: RequestRecord[];
  readonly #serving: Serving;
  readonly #stopWorker: () => Promise<void>;

  private constructor(parts: {
    provider: GatedProvider;
    store: Store;
    gateway: Gateway;
    log: string[];
    answered: RequestRecord[];
    serving: Serving;
    stopWorker: () => Promise<void>;
  }) {
    this.provider = parts.provider;
    this.store = parts.store;
    this.gateway = parts.gateway;
    this.log = parts.log;
    this.answered = parts.answered;
    this.#serving = parts.serving;
    this.#stopWorker = parts.stopWorker;
  }

  static async open({
    config = {},
    host = systemHost,
    elsewhere = false,
    ...agentOptions
  }: Partial<AgentOptions> & {
    config?: JsonObject;
    host?: Host;
    elsewhere?: boolean;
  } = {}): Promise<ServedGateway> {
    const provider = await GatedProvider.listen();
    const store = memory();
    const log: string[] = [];
    const answered: RequestRecord[] = [];
    const model = openaiChat({ model: 'any', baseURL: provider.url, apiKey: 'sk-test' });
    const open = (of: Store, drives: boolean) =>
      createGateway(
        {
          store: of,
          host,
          // `keep_unstored`, so that tests can look at every run.
          config: gatewayConfigSchema.parse({ keep_unstored: true, ...config }),
          log: line => log.push(line),
          drives,
        },
        new Map([
          ['desk', createAgent({ name: 'desk', store: of, model, ...agentOptions } as AgentOptions) as Agent],
        ]),
      );
    const gateway = open(elsewhere ? nonDrivingStore(store) : store, !elsewhere);
    const { service, messages, responses, chat, agentsByRun } = gateway;
    const app = createRunsApp({
      store: elsewhere ? nonDrivingStore(store) : store,
      agents: new Map(),
      mounted: [messages, responses, chat],
      agentsByRun,
      drives: !elsewhere,
      admission: service.admission,
      log: line => log.push(line),
      onRequest: record => answered.push(record),
    });
    const stopWorker = elsewhere ? startWorker(open(store, true), { store, host, log }) : async () => {};
    const serving = await serveRuns(app, { host: '127.0.0.1', port: 0 });
    return new ServedGateway({ provider, store, gateway, log, answered, serving, stopWorker });
  }

  get url(): string {
    return this.#serving.url;
  }

  ask(path: string, body: object, headers: Record<string, string> = {}): Asking {
    const client = new AbortController();
    const answer = fetch(this.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
      signal: client.signal,
    });
    answer.catch(() => {});
    return { answer, leave: () => client.abort() };
  }

  askAs(api: Api, more: object = {}, headers: Record<string, string> = {}): Asking {
    const { path, body } = ENDING[api];
    return this.ask(path, { ...body, ...more }, headers);
  }

  /** The newest run. */
  async run(): Promise<{ runId: string; status: string; events: RunEvent[] }> {
    const { runs } = await this.store.list({ limit: 1000 });
    const runId = runs.toSorted((one, other) => other.createdAt - one.createdAt)[0]?.runId ?? '';
    const { state } = await loadRun(this.store, runId);
    const entries = await readJournal(this.store, runId);
    return { runId, status: statusOf(state), events: entries.map(({ event }) => event) };
  }

  async ended(): Promise<Awaited<ReturnType<ServedGateway['run']>>> {
    return await until(async () => {
      const run = await this.run();
      const { state } = await loadRun(this.store, run.runId);
      return hasEnded(state) ? run : undefined;
    });
  }

  async countRuns(): Promise<number> {
    return (await this.store.list({ limit: 1000 })).runs.length;
  }

  async close(): Promise<void> {
    await this.#serving.close();
    await this.#stopWorker();
    await this.gateway.service.close();
    await this.provider.close();
  }
}

/** Drives the runs of another gateway's requests, until the result is called. */
function startWorker(
  { agentsByRun, service }: Gateway,
  { store, host, log }: { store: Store; host: Host; log: string[] },
): () => Promise<void> {
  const { taker, held } = createRunWorker({
    store,
    host,
    agents: new Map(),
    agentsByRun,
    log: line => log.push(line),
  });
  const ended = taker.start();
  return async () => {
    taker.stop();
    held.close();
    await ended;
    await service.close();
  };
}
