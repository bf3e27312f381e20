import {
  type Artifact,
  type Message,
  type Part,
  type StreamResponse,
  type Task,
  TaskState,
} from '@a2a-js/sdk';
import {
  type Client,
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import type { Agent } from '../../../agent/index.ts';
import { createA2aApi } from '../../../fronts/a2a/a2a-api.ts';
import { ServedRuns } from '../../../fronts/served/served-runs.ts';
import { createRunsApp, type RunsAppOptions } from '../../../server/app.ts';
import { memory } from '../../../stores/memory.ts';

const ORIGIN = 'http://127.0.0.1:4100';

/** An A2A server in this process, over the agents' store. A second one is the same server after a restart. */
export function a2aServer(agents: readonly Agent[], options: Partial<RunsAppOptions> = {}) {
  const byName = new Map(agents.map(agent => [agent.name, agent]));
  const store = agents[0]?.store ?? memory();
  const log: string[] = [];
  const runs = new ServedRuns({ store, agents: byName, log: line => log.push(line) });
  const api = createA2aApi({ runs, hasToken: options.tokens !== undefined, log: line => log.push(line) });
  const app = createRunsApp({ store, agents: byName, mounted: [api], ...options });
  const send: typeof fetch = async (url, init) => {
    const headers = new Headers(init?.headers);
    headers.set('host', '127.0.0.1:4100');
    const request = new Request(url instanceof Request ? url.url : new URL(url, ORIGIN), {
      ...init,
      headers,
    });
    return await app.request(request);
  };
  return { runs, store, log, send, close: () => app.close() };
}
export type A2aServer = ReturnType<typeof a2aServer>;

export type Binding = 'JSONRPC' | 'HTTP+JSON';

/** The official client, from the card of the server, over one of its bindings. `token`: sent with every request. */
export async function a2aClient({ send }: A2aServer, binding: Binding, token?: string): Promise<Client> {
  const fetchImpl: typeof fetch = (url, init) => {
    const headers = new Headers(init?.headers);
    if (token !== undefined) headers.set('authorization', `Bearer ${token}`);
    return send(url, { ...init, headers });
  };
  const factory = new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [new JsonRpcTransportFactory({ fetchImpl }), new RestTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
      preferredTransports: [binding],
    }),
  );
  return await factory.createFromUrl(ORIGIN);
}

type Sent = { text?: string; data?: unknown; taskId?: string; contextId?: string; now?: boolean };

/** The request of a message of a text or data. `now`: the answer is not waited for. */
export function sending({ text, data, taskId = '', contextId = '', now = false }: Sent) {
  const part = (content: Part['content']): Part => ({
    content,
    metadata: undefined,
    filename: '',
    mediaType: '',
  });
  const message: Message = {
    messageId: 'message',
    role: 1,
    taskId,
    contextId,
    parts: [
      ...(text === undefined ? [] : [part({ $case: 'text', value: text })]),
      ...(data === undefined ? [] : [part({ $case: 'data', value: data })]),
    ],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
  const configuration = {
    acceptedOutputModes: [],
    taskPushNotificationConfig: undefined,
    returnImmediately: now,
  };
  return { tenant: '', message, metadata: undefined, configuration };
}

/** A task in words: its state, the texts and data of its artifacts, and what it asks. */
export function seen(task: Pick<Task, 'status' | 'artifacts'>) {
  const { state = TaskState.UNRECOGNIZED, message } = task.status ?? {};
  return {
    state: TaskState[state],
    answer: task.artifacts.flatMap(contentsOf),
    asked: message === undefined ? [] : contentsOf(message),
  };
}

/** The texts and data of a message or an artifact. */
export function contentsOf({ parts }: Pick<Artifact, 'parts'>): unknown[] {
  return parts.map(({ content }) => content?.value);
}

/** The task that a client has after the updates of a stream, by the rules of A2A. */
export function foldUpdates(updates: readonly StreamResponse[]): Pick<Task, 'status' | 'artifacts'> {
  let task: Pick<Task, 'status' | 'artifacts'> = { status: undefined, artifacts: [] };
  for (const { payload } of updates) {
    if (payload?.$case === 'task') task = payload.value;
    if (payload?.$case === 'statusUpdate') task = { ...task, status: payload.value.status };
    if (payload?.$case !== 'artifactUpdate' || payload.value.artifact === undefined) continue;
    const { artifact, append } = payload.value;
    const known = task.artifacts.find(({ artifactId }) => artifactId === artifact.artifactId);
    const parts = append && known !== undefined ? [...known.parts, ...artifact.parts] : artifact.parts;
    const others = task.artifacts.filter(each => each !== known);
    task = { ...task, artifacts: [...others, { ...artifact, parts }] };
  }
  return task;
}

/** All values of a stream. */
export async function allOf<Value>(stream: AsyncIterable<Value>): Promise<Value[]> {
  const values: Value[] = [];
  for await (const value of stream) values.push(value);
  return values;
}
