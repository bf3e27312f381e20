import { beginFold, foldEntry } from '../../engine/journal/load-run.ts';
import { describeRestored, readPages, readUnredacted } from '../../engine/journal/read-journal.ts';
import type { Context } from '../../machines/context.ts';
import { closeHistory } from '../../machines/history.ts';
import type { ChartState } from '../../machines/step.ts';
import { BoundedMap } from '../../protocol/bounded-map.ts';
import { EngineError } from '../../protocol/error.ts';
import type { JournalEntry, QualifiedCall, RunEvent } from '../../protocol/event.ts';
import { countRedactions } from '../../protocol/redaction.ts';
import type { PastCall } from '../../protocol/rule.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import type { RuledAgent } from '../ruled-agents.ts';
import type { RedactionWatch } from './redaction-watch.ts';

/** The calls of the runs that a run continues. `missing`: why they are not known. */
export type ThreadHistory = { calls: readonly PastCall[]; isRedacted: boolean; missing?: string };

type Parts = { store: Store; agents: ReadonlyMap<string, RuledAgent>; watch: RedactionWatch };

/** Called with each entry after the first, and with the state before it. */
type Visit = (before: ChartState, entry: JournalEntry) => Promise<void> | void;

/**
 * Folds a run from its first entry, with a history of its calls, whether it kept one or not. `begin` is called once for
 * each time that the journal is read. Returns `undefined` for an unknown run. Throws `journal-damaged`, `chart-mismatch`,
 * and `refused` for a run that was restored from a snapshot.
 */
export async function foldHistory(
  { store, agents }: Parts,
  runId: string,
  { begin, at = Number.POSITIVE_INFINITY }: { begin(record: RunRecord): Visit; at?: number },
): Promise<{ context: Context; isRedacted: boolean } | undefined> {
  return await readUnredacted(store, runId, async (span, record) => {
    if (record === undefined) return undefined;
    const visit = begin(record);
    const tools = agents.get(record.agent)?.tools;
    let state: ChartState | undefined;
    for await (const page of readPages(store, runId, 0, span))
      for (const { seq, event: stored } of page) {
        if (seq > at) break;
        const event = tools === undefined ? stored : withTags(stored, tools);
        if (event.type === 'run.started' && seq === 1)
          state = beginFold({ ...event, config: { ...event.config, history: true } });
        else if (state === undefined) throw describeRestored(runId, 'Judge', seq);
        else {
          await visit(state, { seq, event });
          state = foldEntry(state, { seq, event }, runId);
        }
      }
    if (state === undefined) throw describeRestored(runId, 'Judge', undefined);
    return { context: state.context, isRedacted: record.redactions > 0 };
  });
}

/** The event with the tags that the tools of its calls have now. */
function withTags(event: RunEvent, tools: RuledAgent['tools']): RunEvent {
  const retag = (call: QualifiedCall): QualifiedCall => {
    const tool = tools.get(call.name);
    if (tool === undefined) return call;
    const { tags: _, ...bare } = call;
    return tool.tags === undefined ? bare : { ...bare, tags: [...tool.tags] };
  };
  switch (event.type) {
    case 'turn.completed':
    case 'turn.edited':
    case 'transcript.edited':
      return event.calls.length === 0 ? event : { ...event, calls: event.calls.map(retag) };
    case 'call.edited':
      return { ...event, call: retag(event.call) };
    default:
      return event;
  }
}

/** How many calls are kept of threads that may continue. */
const MOST_CALLS = 500_000;

/** The histories of threads. A run that was judged is not read again for those that continue it. */
export class ThreadHistories {
  readonly #parts: Parts;
  readonly #known = new BoundedMap<string, ThreadHistory>(MOST_CALLS);

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Of a run and those that it continues; with `at`, up to this entry of it. */
  async load(continues: string | null, at?: number): Promise<ThreadHistory> {
    if (continues === null) return { calls: [], isRedacted: false };
    const key = keyOf(continues, at);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const loaded = await this.#read(continues, at);
    this.#keep(key, loaded);
    return loaded;
  }

  async #read(runId: string, at: number | undefined): Promise<ThreadHistory> {
    try {
      const begin = () => () => {};
      const run = await foldHistory(this.#parts, runId, at === undefined ? { begin } : { begin, at });
      if (run === undefined) return missing(`run ${runId}, which its run continues, is not in this store`);
      const { continues, continuesAt } = run.context;
      return this.#extend(await this.load(continues, continuesAt), run);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      return missing(error.message);
    }
  }

  /** Keeps the history of a run that was folded to its end, for runs that continue it. */
  add(before: ThreadHistory, run: { context: Context; isRedacted: boolean }): void {
    this.#keep(keyOf(run.context.runId, undefined), this.#extend(before, run));
  }

  #keep(key: string, history: ThreadHistory): void {
    this.#known.set(key, history, history.calls.length + 1);
  }

  #extend(
    before: ThreadHistory,
    { context, isRedacted }: { context: Context; isRedacted: boolean },
  ): ThreadHistory {
    const own = closeHistory(context);
    const watched = isRedacted ? own.map(call => watchInput(call, this.#parts.watch)) : own;
    return {
      ...before,
      calls: [...before.calls, ...watched],
      isRedacted: before.isRedacted || watched !== own,
    };
  }
}

function missing(why: string): ThreadHistory {
  return { calls: [], isRedacted: false, missing: why };
}

function keyOf(runId: string, at: number | undefined): string {
  return at === undefined ? runId : `${at} ${runId}`;
}

/** The call, whose redacted input is watched. */
export function watchInput<Call extends { input: unknown }>(call: Call, watch: RedactionWatch): Call {
  return countRedactions(call.input) === 0 ? call : { ...call, input: watch.over(call.input) };
}
