// server/runs/live: server-sent events of one run, of several, and of all changes.

import type { Context } from 'hono';
import * as z from 'zod';
import { seesRun } from '../../../access/caller.ts';
import { nextReaderTurn } from '../../../engine/events/reader-turns.ts';
import {
  type BodyFormat,
  EVENT_STREAM_HEADERS,
  KEEP_ALIVE_COMMENT,
  streamedBody,
} from '../../../engine/events/streamed-body.ts';
import { ApiError } from '../../error-envelope.ts';
import { fields, optional } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';
import type { RouteParts } from '../route-parts.ts';
import { findRecord } from '../run-registry.ts';
import {
  type Frame,
  followRun,
  frame,
  nameRun,
  OPENING,
  type Portion,
  withId,
  writePortion,
} from './event-stream.ts';

const MOST_RUNS = 32;

export const eventsQuery = fields({
  run: optional(
    z.array(z.string().min(1).max(1_000)).max(MOST_RUNS),
    'A run to follow, as ID or ID:AFTER; repeatable. AFTER is the last seq you have.',
  ),
  summaries: optional(z.enum(['1', '0']), '1: also send changes of the list of runs and of the inbox.'),
});

type Place = [runId: string, after: number];

export async function streamEvents(
  c: Context<RunsEnv>,
  runId: string,
  options: RouteParts,
): Promise<Response> {
  await nextReaderTurn();
  await findRecord(options.store, runId, c.get('caller'));
  const left = new AbortController();
  const portions = follow(c, [runId, readPlace(c)], left.signal, options);
  return send(c, portions, { frame: writePortion, begin: OPENING, leave: () => left.abort() }, options);
}

export async function streamAll(
  c: Context<RunsEnv>,
  { run = [], summaries }: z.output<typeof eventsQuery>,
  options: RouteParts,
): Promise<Response> {
  const { store, changes } = options;
  const resumed = readPlaces(c.req.header('last-event-id'));
  const caller = c.get('caller');
  await nextReaderTurn();
  const places = new Map<string, number>();
  const sources: Source[] = [];
  const missing: string[] = [];
  const left = new AbortController();
  for (const [runId, given] of new Map(run.map(readRun))) {
    const record = await store.get(runId);
    if (record === undefined || !seesRun(caller, record.labels)) {
      missing.push(runId);
      continue;
    }
    const after = resumed.get(runId) ?? given;
    places.set(runId, after);
    sources.push({ runId, portions: follow(c, [runId, after], left.signal, options) });
  }
  if (summaries === '1') sources.push({ runId: null, portions: changes.follow(caller, left.signal) });
  const merged = mergeRuns(sources, places, left);
  const begin = [OPENING, ...missing.map(id => frame('gone', { runId: id }).text)].join('');
  return send(c, merged, { frame: text => text, begin, leave: () => left.abort() }, options);
}

function send<Value>(
  c: Context<RunsEnv>,
  values: AsyncGenerator<Value>,
  format: Pick<BodyFormat<Value>, 'frame' | 'begin' | 'leave'>,
  { host, streamBounds }: RouteParts,
): Response {
  const keepAlive = { text: KEEP_ALIVE_COMMENT, host, ms: streamBounds.keepAliveMs };
  const body = streamedBody(values, { ...format, keepAlive });
  return c.body(body, 200, EVENT_STREAM_HEADERS);
}

function follow(
  c: Context<RunsEnv>,
  [runId, after]: Place,
  left: AbortSignal,
  { store, held, streamBounds, log }: RouteParts,
) {
  return followRun({
    runId,
    after,
    store,
    log,
    left,
    bounds: streamBounds,
    hold: () => held.hold(runId),
    disconnect: () => c.env?.outgoing?.destroy(),
  });
}

/** `Last-Event-ID`, which browsers send when they reconnect, takes precedence over `?after=`. */
function readPlace(c: Context<RunsEnv>): number {
  const text = c.req.header('last-event-id') || c.req.query('after') || '0';
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new ApiError(
    'input-invalid',
    'Set Last-Event-ID or ?after= to the seq of a journal entry: a whole number.',
  );
}

/** Parses the id of an event, `RUN:SEQ,RUN:SEQ` with escaped run ids. Throws `input-invalid`. */
function readPlaces(text = ''): ReadonlyMap<string, number> {
  const parts = text === '' ? [] : text.split(',', MOST_RUNS);
  try {
    return new Map(parts.map(readRun).map(([runId, after]) => [decodeURIComponent(runId), after]));
  } catch {
    throw new ApiError('input-invalid', 'Last-Event-ID is not the id of an event of this stream.');
  }
}

function readRun(text: string): Place {
  const [, runId = text, after = '0'] = /^(.*):(\d{1,15})$/s.exec(text) ?? [];
  return [runId, Number(after)];
}

/** A source of the stream; `runId` is `null` for changes of all runs. */
type Source = { runId: string | null; portions: AsyncGenerator<Portion, boolean> };

function formatPlaces(places: ReadonlyMap<string, number>): string {
  return [...places].map(([runId, seq]) => `${encodeURIComponent(runId)}:${seq}`).join(',');
}

/**
 * Merges several runs, and the changes of all runs, into the texts of one stream of server-sent events, at the reader's
 * pace.
 *
 * M1 The id of an entry encodes the position in every run, `RUN:SEQ,RUN:SEQ`, so that a reader resumes all of them from
 *    it.
 * M2 A run that has ended is left out after its `end`; a run whose stream breaks ends the stream, so that its reader
 *    connects again. Without changes of all runs, the stream ends with the last run.
 */
async function* mergeRuns(
  sources: readonly Source[],
  places: Map<string, number>,
  left: AbortController,
): AsyncGenerator<string, void> {
  const ready: { source: Source; step: IteratorResult<Portion, boolean> }[] = [];
  let wake = () => {};
  const read = (source: Source) =>
    void source.portions.next().then(step => {
      ready.push({ source, step });
      wake();
    });
  const write = (runId: string | null, one: Frame) => {
    if (runId === null) return one.text;
    if (one.seq === undefined) return nameRun(one, runId).text;
    places.set(runId, one.seq);
    return withId(one, formatPlaces(places));
  };
  try {
    for (const source of sources) read(source);
    for (let open = sources.length; open > 0; ) {
      const first = ready.shift();
      if (first === undefined) {
        await new Promise<void>(resolve => {
          wake = resolve;
        });
        continue;
      }
      const { source, step } = first;
      if (step.done === true) {
        if (!step.value) return;
        open -= 1;
        continue;
      }
      read(source);
      // Its ids are those of this reader alone: a page is encoded in the reader's turn.
      if (step.value.length > 1) await nextReaderTurn();
      if (left.signal.aborted) return;
      yield step.value.map(one => write(source.runId, one)).join('');
    }
  } finally {
    left.abort();
  }
}
