import { AsyncLocalStorage } from 'node:async_hooks';
import type { MiddlewareHandler } from 'hono';
import { matchedRoutes } from 'hono/route';
import type { Host } from '../engine/driver/host.ts';
import { addUsage } from '../machines/limits.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { Usage } from '../protocol/turn.ts';
import type { Caller } from './access/caller.ts';
import type { RunsEnv } from './runs-env.ts';

/** What the server reports about a request when it is over. It has no content: no body, query, header or token. */
export type RequestRecord = {
  /** The `x-request-id` of the answer. */
  request: string;
  method: string;
  /** The pattern of the route, such as `/runs/:id`; `null` if there is none. */
  route: string | null;
  status: number;
  /** From the first byte of the request until the answer was sent or the client left. */
  ms: number;
  /** The name of the caller's token; `null` without a valid one. */
  caller: string | null;
  /** The run that a request to `/v1` began or continued, its `provider:model`, and what its model calls used. */
  run?: string;
  model?: string;
  usage?: { input_tokens: number; output_tokens: number };
};

/** What a request finds out about itself while it is handled. */
export class RequestNote {
  readonly request: string;
  run: string | undefined;
  model: string | undefined;
  #usage: Usage | null = null;

  constructor(request: string) {
    this.request = request;
  }

  /** Adds a model call that the request waits for. */
  addUsage(usage: Usage | null): void {
    this.#usage = addUsage(this.#usage, usage);
  }

  /** The members of the request's record. */
  toRecord(): Pick<RequestRecord, 'run' | 'model' | 'usage'> {
    const used = this.#usage;
    const usage = used === null ? undefined : countsOf(used);
    return omitUndefined({ run: this.run, model: this.model, usage });
  }
}

const notes = new AsyncLocalStorage<RequestNote>();

/** The note of the request that is being handled; `undefined` outside of requests. */
export function currentNote(): RequestNote | undefined {
  return notes.getStore();
}

/** Gives every answer a random `x-request-id`, and reports each request when its answer was sent. */
export function logRequests(
  host: Host,
  report: ((record: RequestRecord) => void) | undefined,
): MiddlewareHandler<RunsEnv> {
  return async (c, next) => {
    const request = host.newId('req');
    c.header('x-request-id', request);
    c.set('requestId', request);
    const begun = host.monotonic();
    const note = new RequestNote(request);
    await notes.run(note, next);
    if (report === undefined) return;
    const caller: Caller | undefined = c.get('caller');
    const route = matchedRoutes(c).findLast(({ method }) => method === c.req.method)?.path ?? null;
    const finish = () =>
      report({
        request,
        method: c.req.method,
        route,
        status: c.res.status,
        ms: Math.round(host.monotonic() - begun),
        caller: caller?.name ?? null,
        ...note.toRecord(),
      });
    const outgoing = c.env?.outgoing;
    if (outgoing === undefined || outgoing.closed) finish();
    else outgoing.once('close', finish);
  };
}

function countsOf({ inputTokens, outputTokens }: Usage) {
  return { input_tokens: inputTokens, output_tokens: outputTokens };
}
