import type { RunEvent } from '../../../protocol/event.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { RunSummary } from '../../../protocol/run-view.ts';

export type { AgentSummary } from '../../../protocol/agent-view.ts';
export type {
  InboxItem,
  JsonOpenCall,
  JsonOpenItem,
  OpenedItem,
  RunSummary,
  RunView,
} from '../../../protocol/run-view.ts';

export const runPath = (runId: string): string => `/runs/${encodeURIComponent(runId)}`;

export const sessionPath = (id: string): string => `/sessions/${encodeURIComponent(id)}`;

/** Each as `NAME=VALUE`. */
export function labelsOf({ labels }: Pick<RunSummary, 'labels'>): string[] {
  return Object.entries(labels).map(pair => pair.join('='));
}

/** Of a thread on the page and on the server. `labels`: each as `NAME=VALUE`. */
export function threadPath(id: string, labels: readonly string[]): string {
  const query = new URLSearchParams(labels.map((label): [string, string] => ['label', label]));
  return `/threads/${encodeURIComponent(id)}${labels.length === 0 ? '' : `?${query}`}`;
}

/** Of the thread that a run belongs to. */
export function threadOf({ labels, thread = '' }: Pick<RunSummary, 'labels' | 'thread'>): string {
  return threadPath(thread, labelsOf({ labels }));
}

export const comparePath = (left: string, right: string): string =>
  `/compare/${encodeURIComponent(left)}..${encodeURIComponent(right)}`;

export type StreamedEvent = RunEvent & { runId: string; seq: number };

export function describeThrown(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** An error response of the API; status 0 and code `unreachable` without a response. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly status: number;
  readonly code: string;
  readonly by: string | undefined;

  constructor(status: number, code: string, message: string, by?: string) {
    super(message);
    this.status = status;
    this.code = code;
    this.by = by;
  }
}

/** Sends a POST with a body, else a GET. Returns the JSON; `null` for 204. Throws `RequestError`; a 401 asks to sign in. */
export async function requestServer<Answer>(path: string, body?: object, method?: string): Promise<Answer> {
  const response = await fetch(path, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    credentials: 'same-origin',
    headers: {
      accept: 'application/json',
      ...omitUndefined({ 'content-type': body && 'application/json' }),
    },
    ...omitUndefined({ body: body && JSON.stringify(body) }),
  }).catch(() => {
    throw new RequestError(0, 'unreachable', UNREACHABLE);
  });
  if (response.ok) return (response.status === 204 ? null : await response.json()) as Answer;
  const error = await readError(response);
  if (error.status === 401 && path !== '/session') notifyUnauthorized();
  throw error;
}

const UNREACHABLE = 'No response from the server. Check that it is running, then try again.';

export async function readError(response: Response): Promise<RequestError> {
  const { status } = response;
  try {
    const { error } = (await response.json()) as { error: { code: unknown; message: unknown; by?: string } };
    return new RequestError(status, String(error.code), String(error.message), error.by);
  } catch {
    return new RequestError(status, 'unexpected', `The server answered ${status} ${response.statusText}.`);
  }
}

let notifyUnauthorized: () => unknown = () => {};

export function onUnauthorized(notify: () => unknown): void {
  notifyUnauthorized = notify;
}
