import { connect, HttpCallError, Opts } from '@restatedev/restate-sdk-clients';
import { EngineError, messageOf } from '../../protocol/error.ts';
import {
  json,
  RUN_OBJECT,
  type RunRequests,
  TEXT_OBJECT,
  type TextRequests,
  THREAD_OBJECT,
  type ThreadRequests,
} from './requests.ts';

export type RestateAddress = {
  /** The URL of the ingress. Default: `http://127.0.0.1:8080`. */
  ingress?: string;
  /** The URL of the admin API, which lists runs. Default: `http://127.0.0.1:9070`. */
  admin?: string;
  /** Headers for each request, such as the authorization of Restate Cloud. */
  headers?: Readonly<Record<string, string>>;
};

export interface RestateCalls {
  /** Calls the object of a run. A call whose response is lost is repeated and takes effect once. */
  run<Name extends keyof RunRequests>(
    runId: string,
    name: Name,
    input: RunRequests[Name]['input'],
  ): Promise<RunRequests[Name]['output']>;
  thread<Name extends keyof ThreadRequests>(
    key: string,
    name: Name,
    input: ThreadRequests[Name]['input'],
  ): Promise<ThreadRequests[Name]['output']>;
  text<Name extends keyof TextRequests>(
    runId: string,
    name: Name,
    input: TextRequests[Name]['input'],
  ): Promise<TextRequests[Name]['output']>;
  query(sql: string): Promise<Record<string, unknown>[]>;
}

/** How long a call is retried while Restate cannot be reached, in ms. */
const PATIENCE_MS = 60_000;

/** Returns calls that use Restate's ingress and admin API. They reject with `store-unavailable`. */
export function callsOver({
  ingress: url = 'http://127.0.0.1:8080',
  admin = 'http://127.0.0.1:9070',
  headers = {},
}: RestateAddress): RestateCalls {
  const retry = {
    maxAttempts: false,
    maxDuration: PATIENCE_MS,
    initialInterval: 50,
    maxInterval: 1_000,
  } as const;
  const ingress = connect({ url, headers: { ...headers }, retry });
  const call = async (service: string, key: string, handler: string, parameter: unknown) => {
    try {
      const serdes = { input: json<unknown>(), output: json<unknown>() };
      const opts = Opts.from({ ...serdes, idempotencyKey: crypto.randomUUID(), timeout: PATIENCE_MS });
      return await ingress.call({ service, key, handler, parameter, opts });
    } catch (error) {
      throw explain(error, url, handler);
    }
  };
  return {
    run: async (runId, name, input) => (await call(RUN_OBJECT, runId, name, input)) as never,
    thread: async (key, name, input) => (await call(THREAD_OBJECT, key, name, input)) as never,
    text: async (runId, name, input) => (await call(TEXT_OBJECT, runId, name, input)) as never,
    query: async sql => await query(admin, headers, sql),
  };
}

function explain(error: unknown, url: string, handler: string): EngineError {
  const missing = error instanceof HttpCallError && error.status === 404;
  const message = missing
    ? `Restate at ${url} does not know the service of ${handler}. Register the worker: POST its URL to the admin API at /deployments.`
    : `Restate at ${url} did not answer ${handler}: ${messageOf(error)}. Check that it runs, and try again.`;
  return new EngineError('store-unavailable', message, null, { cause: error });
}

async function query(
  admin: string,
  headers: Readonly<Record<string, string>>,
  sql: string,
): Promise<Record<string, unknown>[]> {
  try {
    const response = await fetch(new URL('/query', admin), {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify({ query: sql }),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    if (!response.ok) throw new Error(`${response.status} ${(await response.text()).slice(0, 500)}`);
    return ((await response.json()) as { rows: Record<string, unknown>[] }).rows;
  } catch (cause) {
    const message = `The admin API of Restate at ${admin} did not answer a query: ${messageOf(cause)}. Set admin to its URL.`;
    throw new EngineError('store-unavailable', message, null, { cause });
  }
}
