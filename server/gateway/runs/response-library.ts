import { type Caller, sees } from '../../../access/caller.ts';
import { readJournal } from '../../../engine/journal/read-journal.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { textOf } from '../../../protocol/message.ts';
import type { Store } from '../../../protocol/store.ts';
import { Answer } from '../answer/answer.ts';
import { type AnswerEvent, type CompleteEvent, isComplete } from '../answer/answer-event.ts';
import { readResponseId } from '../answer/wire-ids.ts';
import { divideJournal, type RunResponses, type Span } from './run-responses.ts';

export type FoundResponse = { run: RunResponses; span: Span };

/** The most unstored waiting runs that are kept in memory. */
const MOST_UNSTORED = 1_000;

/**
 * The runs of the gateway. All are in the store, except waiting runs with `store: false`, which this process keeps in
 * memory. Requests see them through `seenBy` only.
 */
export class ResponseLibrary {
  readonly store: Store;
  readonly #unstored = new Map<string, Store>();
  /** The run that was loaded last, for readers that come at the same time: as long as its journal is the same. */
  #loaded: { key: string; run: RunResponses | undefined } | null = null;

  constructor(store: Store) {
    this.store = store;
  }

  /** The runs and responses that the caller may refer to. `ownRunId` is an unstored run that the connection may use. */
  seenBy(caller: Caller, ownRunId?: string): VisibleResponses {
    return new VisibleResponses(this, caller, ownRunId);
  }

  /** The store that has the run; `undefined` if the run does not exist. */
  async storeOf(runId: string): Promise<Store | undefined> {
    const unstored = this.#unstored.get(runId);
    if (unstored !== undefined) return unstored;
    return (await this.store.get(runId)) === undefined ? undefined : this.store;
  }

  /** Whether the run is not one of the unstored ones. */
  isStored(runId: string): boolean {
    return !this.#unstored.has(runId);
  }

  /** Keeps an unstored run; beyond the limit the oldest is dropped. */
  rememberUnstored(runId: string, store: Store): void {
    const [oldest] = this.#unstored.keys();
    if (this.#unstored.size >= MOST_UNSTORED && oldest !== undefined) this.#unstored.delete(oldest);
    this.#unstored.set(runId, store);
  }

  /** Drops an unstored run. */
  forgetUnstored(runId: string): void {
    this.#unstored.delete(runId);
  }

  /** A run and its responses; `undefined` if it does not exist or was not started by the gateway. */
  async load(runId: string): Promise<RunResponses | undefined> {
    const store = this.#unstored.get(runId) ?? this.store;
    const record = await store.get(runId);
    if (record === undefined) return undefined;
    const key = JSON.stringify([runId, record.createdAt, record.seq]);
    if (this.#loaded?.key === key) return this.#loaded.run;
    const run = divideJournal(runId, await readJournal(store, runId));
    this.#loaded = { key, run };
    return run;
  }
}

/**
 * The runs and responses that one caller may refer to: the only way from an id in a request to a response. Those of
 * others are as if they did not exist.
 */
export class VisibleResponses {
  readonly #library: ResponseLibrary;
  readonly #caller: Caller;
  readonly #ownRunId: string | undefined;

  constructor(library: ResponseLibrary, caller: Caller, ownRunId?: string) {
    this.#library = library;
    this.#caller = caller;
    this.#ownRunId = ownRunId;
  }

  /** Whether the run is stored, or counts as stored because it is the connection's own. */
  isStored(runId: string): boolean {
    return runId === this.#ownRunId || this.#library.isStored(runId);
  }

  /**
   * A run with a response of the caller; `undefined` if there is none. Responses of others in the same run count as
   * deleted. The run of a compaction has no response.
   */
  async load(runId: string): Promise<RunResponses | undefined> {
    const run = await this.#library.load(runId);
    if (run === undefined) return undefined;
    const isSeen = ({ spec }: Span) => sees(this.#caller, spec.caller) && spec.compacts !== true;
    if (!run.spans.some(isSeen)) return undefined;
    const spans = run.spans.map(span => (isSeen(span) ? span : { ...span, deleted: true }));
    return { ...run, spans: runId === this.#ownRunId ? spans.map(countAsStored) : spans };
  }

  /** The summary that a run wrote for a compaction of the caller; `undefined` if there is none. */
  async findSummary(runId: string): Promise<string | undefined> {
    const run = await this.#library.load(runId);
    const spec = run?.spans[0]?.spec;
    if (run === undefined || spec?.compacts !== true || !sees(this.#caller, spec.caller)) return undefined;
    const answer = run.state.context.transcript.findLast(
      item => item.type === 'message' && item.role === 'assistant',
    );
    return answer === undefined ? undefined : textOf(answer);
  }

  /** A stored response that was not deleted; `undefined` if there is none with this id. */
  async find(responseId: string): Promise<FoundResponse | undefined> {
    const named = readResponseId(responseId);
    if (named === undefined || !this.isStored(named.runId)) return undefined;
    const run = await this.load(named.runId);
    const span = run?.spans.find(({ id }) => id === responseId);
    if (run === undefined || span === undefined || span.deleted) return undefined;
    return span.spec.request.store === false ? undefined : { run, span };
  }
}

function countAsStored(span: Span): Span {
  const { spec } = span;
  return { ...span, spec: { ...spec, request: { ...spec.request, store: true } } };
}

/**
 * The last response with `store: false` of one connection. It can be continued on that connection only, and is forgotten
 * with it. So are the runs of earlier ones that still wait: clients that keep the history themselves return their items.
 */
export class UnstoredChain {
  readonly #library: ResponseLibrary;
  readonly #waiting = new Set<string>();
  #last: { responseId: string; runId: string } | null = null;

  constructor(library: ResponseLibrary) {
    this.#library = library;
  }

  /** The run of the last response. */
  get runId(): string | undefined {
    return this.#last?.runId;
  }

  /** Replaces the last response. */
  keep(last: { id: string; runId: string }): void {
    const replaced = last.runId === this.runId ? undefined : this.runId;
    if (replaced !== undefined && !this.#waiting.has(replaced)) this.#library.forgetUnstored(replaced);
    this.#waiting.delete(last.runId);
    this.#last = { responseId: last.id, runId: last.runId };
  }

  /** Keeps a run that waits until the chain is forgotten as a whole. */
  keepWaiting(runId: string): void {
    this.#waiting.add(runId);
  }

  /** Forgets the last response, if it is this one; without an id, the whole chain. */
  forget(responseId?: string): void {
    if (responseId === undefined) {
      for (const runId of this.#waiting) this.#library.forgetUnstored(runId);
      this.#waiting.clear();
    }
    if (this.#last === null || (responseId !== undefined && responseId !== this.#last.responseId)) return;
    this.#library.forgetUnstored(this.#last.runId);
    this.#last = null;
  }
}

/** The events of a response, as far as its journal goes. */
export function eventsOf({ run, span }: FoundResponse): AnswerEvent[] {
  const answer = new Answer(span.spec, { runId: run.runId, from: span.from });
  return run.entries.flatMap(entry => answer.takeEntry(entry));
}

/** Whether a response failed so that the client may send its request again. */
export function mayRetry(found: FoundResponse): boolean {
  return eventsOf(found).some(event => event.type === 'ended' && event.retryAfter !== null);
}

/** Yields every response of a run with the items that it shows so far, in one pass over the journal. */
export function* shownItems({
  runId,
  entries,
  spans,
}: RunResponses): Generator<{ span: Span; shown: CompleteEvent[] }> {
  let previous: Answer | undefined;
  for (const span of spans) {
    const { from, spec } = span;
    const answer: Answer = new Answer(spec, { runId, from, ...omitUndefined({ previous }) });
    const begin = previous === undefined ? 0 : from - 1;
    const events = entries.slice(begin, span.to ?? undefined).flatMap(entry => answer.takeEntry(entry));
    yield { span, shown: events.filter(isComplete) };
    previous = answer;
  }
}
