import { readPages } from '../../engine/journal/read-journal.ts';
import { listAll, type RunRecord, type Store } from '../../protocol/store.ts';
import { SpanFold, type TracePlace } from './fold-spans.ts';
import type { RunSpan } from './run-span.ts';
import { traceIdOf } from './run-span.ts';

/** Deeper than sub-agents are ever nested. */
const MOST_ABOVE = 100;

/** Finds the trace and the conversation of a run: those of its topmost run. Throws `run-unknown`. */
export async function locateTrace(store: Store, runId: string): Promise<TracePlace> {
  let top: Pick<RunRecord, 'runId' | 'thread' | 'parent' | 'continues'> | undefined = await store.get(runId);
  for (let above = 0; top?.parent !== undefined && above < MOST_ABOVE; above += 1) {
    const parent: RunRecord | undefined = await store.get(top.parent.runId);
    if (parent === undefined) break;
    top = parent;
  }
  const root = top?.runId ?? runId;
  const first = top?.continues === undefined ? undefined : await firstOf(store, root);
  return { traceId: traceIdOf(root), conversationId: top?.thread ?? first ?? root };
}

/** The first of the runs that a run continues; `undefined` if one of them was deleted. */
async function firstOf(store: Store, runId: string): Promise<string | undefined> {
  const chain = await store.chain(runId).catch(() => []);
  return chain[0]?.runId;
}

/** A drive that has not ended ends at its last entry. Throws `run-unknown`, and `refused` if the journal has no beginning. */
export async function* traceRun(
  store: Store,
  runId: string,
  options: { content?: boolean } = {},
): AsyncGenerator<RunSpan, void> {
  yield* traceBelow(store, runId, await locateTrace(store, runId), options);
}

async function* traceBelow(
  store: Store,
  runId: string,
  place: TracePlace,
  options: { content?: boolean },
): AsyncGenerator<RunSpan, void> {
  const fold = new SpanFold(place, options);
  for await (const page of readPages(store, runId)) for (const entry of page) yield* fold.take(entry);
  yield* fold.unfinished();
  for await (const child of listAll(store, { parent: runId, order: 'asc' }))
    yield* traceBelow(store, child.runId, place, options);
}
