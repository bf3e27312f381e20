import { AsyncLocalStorage } from 'node:async_hooks';
import type { Context, MiddlewareHandler } from 'hono';
import { matchedRoutes } from 'hono/route';
import type { Caller } from '../access/caller.ts';
import type { Host } from '../engine/host/host.ts';
import { addUsage } from '../machines/limits.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { Usage } from '../protocol/turn.ts';
import type { AccessRecord } from './access/request-record.ts';
import type { RunsEnv } from './runs-env.ts';

export class RequestNote {
  readonly request: string;
  run: string | undefined;
  model: string | undefined;
  #usage: Usage | null = null;

  constructor(request: string) {
    this.request = request;
  }

  addUsage(usage: Usage | null): void {
    this.#usage = addUsage(this.#usage, usage);
  }

  toRecord(): Pick<AccessRecord, 'run' | 'model' | 'usage'> {
    const used = this.#usage;
    const usage = used === null ? undefined : countsOf(used);
    return omitUndefined({ run: this.run, model: this.model, usage });
  }
}

const notes = new AsyncLocalStorage<RequestNote>();

export function currentNote(): RequestNote | undefined {
  return notes.getStore();
}

/** On a connection that is upgraded, each message is a request of its own: see `inRequest` of `RunsEnv`. */
export function logRequests(host: Host, report?: (record: AccessRecord) => void): MiddlewareHandler<RunsEnv> {
  return async (c, next) => {
    const { request, ...first } = begin(c);
    c.header('x-request-id', request);
    c.set('requestId', request);
    c.set('inRequest', async work => {
      const { run, finish } = begin(c);
      finish(await run(work));
    });
    await first.run(next);
    if (report === undefined) return;
    const outgoing = c.env?.outgoing;
    const finish = () => first.finish(c.res.status);
    if (outgoing === undefined || outgoing.closed) finish();
    else outgoing.once('close', finish);
  };

  function begin(c: Context<RunsEnv>) {
    const request = host.newId('req');
    const begun = host.monotonic();
    const note = new RequestNote(request);
    const finish = (status: number) => {
      if (report === undefined) return;
      const { method } = c.req;
      const caller: Caller | undefined = c.get('caller');
      const route = matchedRoutes(c).findLast(matched => matched.method === method)?.path ?? null;
      const ms = Math.round(host.monotonic() - begun);
      report({ request, method, route, status, ms, caller: caller?.name ?? null, ...note.toRecord() });
    };
    return { request, finish, run: <Value>(work: () => Promise<Value>) => notes.run(note, work) };
  }
}

function countsOf({ inputTokens, outputTokens, cachedInputTokens, cacheWriteTokens }: Usage) {
  return {
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    ...omitUndefined({
      cached_tokens: cachedInputTokens ?? undefined,
      cache_write_tokens: cacheWriteTokens ?? undefined,
    }),
  };
}
