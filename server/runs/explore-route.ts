import type { Context } from 'hono';
import * as z from 'zod';
import { EVENT_STREAM_HEADERS, streamedBody } from '../../engine/events/streamed-body.ts';
import { messageOf } from '../../protocol/error.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { ApiError } from '../error-envelope.ts';
import { fields, optional } from '../fields.ts';
import type { RunsEnv } from '../runs-env.ts';
import { frame, OPENING } from './live/event-stream.ts';

const MOST_STATES = 200_000;

/** How many explorations run at the same time. Each uses one processor core. */
const AT_ONCE = 1;

const BUSY_MS = 5_000;

export const exploreQuery = fields({
  maxStates: z.coerce.number().int().min(1).max(MOST_STATES).default(40_000),
});

export type Exploring = { type: 'progress'; states: number } | { type: 'result'; report: JsonObject };

export const exploreRunQuery = exploreQuery.extend({
  at: optional(
    z.coerce.number().int().positive(),
    'The seq of the entry to explore from. Default: the last.',
  ),
});

type ExploreOptions = { maxStates: number; signal: AbortSignal; run?: { runId: string; at: number } };

/** Explores a served agent outside of this thread, until the signal aborts. Executes nothing. */
export type ExploreAgent = (agent: string, options: ExploreOptions) => AsyncIterable<Exploring>;

async function* endingWith<Value>(end: () => void, values: AsyncIterable<Value>): AsyncGenerator<Value> {
  try {
    yield* values;
  } finally {
    end();
  }
}

export class Explorations {
  readonly #explore: ExploreAgent | undefined;
  readonly #log: (line: string) => void;
  readonly #running = new Set<AbortController>();

  constructor(explore: ExploreAgent | undefined, log: (line: string) => void) {
    this.#explore = explore;
    this.#log = log;
  }

  /** Also throws `input-invalid`. */
  streamRun(
    c: Context<RunsEnv>,
    agent: string,
    { runId, seq }: RunRecord,
    { at = seq, maxStates }: z.output<typeof exploreRunQuery>,
  ): Response {
    if (at > seq)
      throw new ApiError('input-invalid', `The journal ends at entry ${seq}. Set "at" to 1 to ${seq}.`);
    return this.stream(c, agent, { maxStates, run: { runId, at } });
  }

  /** Stops when the reader disconnects. Throws `not-found` and `rate-limit-exceeded`. */
  stream(c: Context<RunsEnv>, agent: string, options: Omit<ExploreOptions, 'signal'>): Response {
    if (this.#explore === undefined)
      throw new ApiError('not-found', 'This server does not explore agents. Use agentchart explore.');
    if (this.#running.size >= AT_ONCE)
      throw new ApiError('rate-limit-exceeded', 'Another exploration is in progress. Retry later.', {
        retryAfterMs: BUSY_MS,
      });
    const stop = new AbortController();
    this.#running.add(stop);
    const forget = () => this.#running.delete(stop);
    const steps = endingWith(forget, this.#explore(agent, { ...options, signal: stop.signal }));
    const body = streamedBody(steps, {
      begin: OPENING,
      frame: ({ type, ...data }) => frame(type, data).text,
      failed: error => {
        this.#log(`The exploration of ${agent} failed: ${messageOf(error)}`);
        const message = 'The exploration failed. See the log of the server for the cause.';
        return stop.signal.aborted ? '' : frame('failed', { message }).text;
      },
      leave() {
        stop.abort();
        forget();
      },
    });
    return c.body(body, 200, EVENT_STREAM_HEADERS);
  }

  close(): void {
    for (const stop of this.#running) stop.abort();
  }
}
