import type { NextAction } from '../../protocol/effect.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { RunStatus } from '../../protocol/store.ts';
import type { Usage } from '../../protocol/turn.ts';

/** What the runs API gives. Times are ms since the epoch. */
export type RunSummary = {
  runId: string;
  agent: string;
  status: RunStatus;
  createdAt: number;
  updatedAt: number;
  seq: number;
  continues?: string;
};

/** A call without a result. `runId` is the run that has to be told: a sub-agent's for its own calls. */
export type OpenCall = {
  callId: string;
  runId: string;
  name: string;
  input: JsonValue;
  digest: string;
  sideEffect: 'none' | 'idempotent' | 'once';
  status: string;
  /** The run of a sub-agent that will give its result. */
  waitsFor?: string;
  reason?: string;
  expiresAt?: number;
};

export type Settled = {
  status: string;
  error?: { code: string; message: string };
  /** Why the engine paused the run by itself. */
  reason?: string;
  incomplete?: { reason: string };
  unread?: Item[];
  approvals?: OpenCall[];
  results?: OpenCall[];
  doubts?: OpenCall[];
};

export type RunView = RunSummary & {
  state: string;
  parent?: { runId: string; callId: string };
  next: NextAction | null;
  paused: boolean;
  turns: number;
  toolCalls: number;
  limits: Record<string, number>;
  usage: Usage | null;
  cost: number;
  settled: Settled | null;
  calls: OpenCall[];
  driver: { host: string; pid: number; until: number } | null;
  /** As readers see it. */
  transcript: Item[];
  answer?: string;
  availableAgent: boolean;
  chart: { version: number; hash: string };
};

export type AgentInfo = {
  name: string;
  version?: string;
  models: { provider: string; model: string }[];
  tools?: number;
};

export type StreamedEvent = RunEvent & { runId: string; seq: number };

/** A refusal of the API, or of the way to it (`unreachable`). */
export class ApiError extends Error {
  override readonly name = 'ApiError';
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

/** Throws an `ApiError`; a 401 also tells `onUnauthorized`, once for all requests. */
export async function request<Answer>(path: string, body?: object, method?: string): Promise<Answer> {
  const response = await reach(path, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    credentials: 'same-origin',
    headers: {
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (response.ok) return (response.status === 204 ? null : await response.json()) as Answer;
  const error = await readError(response);
  if (error.status === 401 && path !== '/session') tellUnauthorized();
  throw error;
}

async function reach(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, init);
  } catch {
    throw new ApiError(
      0,
      'unreachable',
      'The server does not answer. Is it still running? Nothing was changed.',
    );
  }
}

async function readError(response: Response): Promise<ApiError> {
  const { status } = response;
  try {
    const { error } = (await response.json()) as { error: { code: unknown; message: unknown; by?: string } };
    return new ApiError(status, String(error.code), String(error.message), error.by);
  } catch {
    return new ApiError(status, 'unexpected', `The server answered ${status} ${response.statusText}.`);
  }
}

let tellUnauthorized = () => {};

export function onUnauthorized(tell: () => void): void {
  tellUnauthorized = tell;
}
