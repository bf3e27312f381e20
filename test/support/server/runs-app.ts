import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, InDoubt, tool } from '../../../agent/index.ts';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunView } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import { createRunsApp, type RunsApp, type RunsAppOptions } from '../../../server/app.ts';
import type { ErrorEnvelope } from '../../../server/error-envelope.ts';
import { memory } from '../../../stores/memory.ts';

const ORIGIN = 'http://127.0.0.1:4100';

export const REFUND: ScriptedTurn = {
  toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1', cents: 4200 } }],
};
export const DONE: ScriptedTurn = { text: 'Done.' };

/** Polls `look` until it returns a value; rejects after a minute. */
export async function until<Value>(
  look: () => Promise<Value | undefined> | Value | undefined,
): Promise<Value> {
  const deadline = performance.now() + 60_000;
  for (;;) {
    const value = await look();
    if (value !== undefined) return value;
    if (performance.now() > deadline) throw new Error(`not within a minute: ${look}`);
    await new Promise(resolve => setTimeout(resolve, 10));
  }
}

export function makeTools() {
  let charged = false;
  return [
    tool({
      name: 'refund',
      description: 'Pays back.',
      input: z.object({ orderId: z.string(), cents: z.number().int() }),
      approval: true,
      run: ({ cents }) => ({ refunded: cents }),
    }),
    tool({ name: 'ask_customer', description: 'The client asks.', input: z.object({}) }),
    tool({
      name: 'charge',
      description: 'Nobody knows whether it acted.',
      input: z.object({}),
      run: () => {
        if (charged) return 'charged again';
        charged = true;
        throw new InDoubt('the connection broke');
      },
    }),
    tool({
      name: 'expiring',
      description: 'Must be approved at once.',
      input: z.object({}),
      approval: () => ({ required: true, expiresInMs: 1 }),
      run: () => 'done',
    }),
    tool({
      name: 'expiring_soon',
      description: 'Must be approved within a second.',
      input: z.object({}),
      approval: () => ({ required: true, expiresInMs: 1_000 }),
      run: () => 'done',
    }),
  ];
}

export type TestApp = {
  app: RunsApp;
  store: Store;
  log: string[];
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  /** Starts a run and waits until it rests or has ended. */
  begin(body?: object): Promise<RunView>;
  view(runId: string): Promise<RunView>;
  /** The view of the run once it is no longer running. */
  rest(runId: string): Promise<RunView>;
};

type AppOptions = Partial<RunsAppOptions> & {
  turns?: readonly ScriptedTurn[];
  model?: ModelAdapter;
  agent?: Partial<Agent['options']>;
};

/** The API in this process, over a store in memory and one agent on a script. */
export function makeApp({ turns = [REFUND, DONE], model, agent = {}, ...options }: AppOptions = {}): TestApp {
  const store = options.store ?? memory();
  const log: string[] = [];
  const desk = createAgent({
    name: 'desk',
    model: model ?? scripted(turns),
    tools: makeTools(),
    ...agent,
    store,
  });
  const app = createRunsApp({
    agents: new Map([['desk', desk]]),
    log: line => log.push(line),
    ...options,
    store,
  });
  const send: TestApp['send'] = async (method, path, body, headers = {}) =>
    await app.request(ORIGIN + path, {
      method,
      headers: {
        host: '127.0.0.1:4100',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  const view = async (runId: string) => (await (await send('GET', `/runs/${runId}`)).json()) as RunView;
  const rest = (runId: string) =>
    until(async () => {
      const found = await view(runId);
      return found.status === 'running' ? undefined : found;
    });
  const begin = async (body: object = { input: 'go' }) => {
    const response = await send('POST', '/runs', body);
    if (response.status !== 201) throw new Error(`${response.status} ${await response.text()}`);
    return await rest(((await response.json()) as RunView).runId);
  };
  return { app, store, log, send, view, rest, begin };
}

export async function errorOf(response: Response): Promise<ErrorEnvelope['error'] & { status: number }> {
  const { error } = (await response.json()) as ErrorEnvelope;
  return { ...error, status: response.status };
}

export type SentEvent = { id?: string; event: string; data: { [key: string]: unknown } };
export type Journaled = RunEvent & { runId: string; seq: number };

/** Parses server-sent events, without comments and `retry`. */
export function parseEvents(text: string): SentEvent[] {
  return text
    .split('\n\n')
    .filter(block => block.includes('data: '))
    .map(block => {
      const field = (name: string) =>
        block
          .split('\n')
          .find(line => line.startsWith(`${name}: `))
          ?.slice(name.length + 2);
      const id = field('id');
      return {
        ...omitUndefined({ id }),
        event: field('event') ?? 'message',
        data: JSON.parse(field('data') ?? 'null'),
      };
    });
}

/** The ids of the journal entries, in order of arrival. */
export function idsOf(events: readonly SentEvent[]): number[] {
  return events.flatMap(({ id }) => (id === undefined ? [] : [Number(id)]));
}

export function countTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}
