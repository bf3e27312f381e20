import { readJournal } from '../../engine/journal/read-journal.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { divideJournal, type RunResponses, type Span } from './run-responses.ts';
import { Translation } from './wire/translation.ts';
import { readResponseId } from './wire/wire-ids.ts';

export type FoundResponse = { run: RunResponses; span: Span };

/** How many runs that are not stored, and wait for something, are remembered. */
const MOST_UNSTORED = 1_000;

/**
 * The responses and items that requests may name. They are runs of the store; nothing is kept beside it but
 * the runs with `store: false` that wait, for as long as this process lasts.
 */
export class ResponseLibrary {
  readonly store: Store;
  readonly #unstored = new Map<string, Store>();

  constructor(store: Store) {
    this.store = store;
  }

  /** Where a run is; `undefined` when there is none. */
  async storeOf(runId: string): Promise<Store | undefined> {
    const unstored = this.#unstored.get(runId);
    if (unstored !== undefined) return unstored;
    return (await this.store.get(runId)) === undefined ? undefined : this.store;
  }

  isStored(runId: string): boolean {
    return !this.#unstored.has(runId);
  }

  rememberUnstored(runId: string, store: Store): void {
    const [oldest] = this.#unstored.keys();
    if (this.#unstored.size >= MOST_UNSTORED && oldest !== undefined) this.#unstored.delete(oldest);
    this.#unstored.set(runId, store);
  }

  forgetUnstored(runId: string): void {
    this.#unstored.delete(runId);
  }

  /** `undefined` for a run there is not, and for one that is none of this surface. */
  async load(runId: string): Promise<RunResponses | undefined> {
    const store = await this.storeOf(runId);
    return store && divideJournal(runId, await readJournal(store, runId));
  }

  /** A stored response that was not deleted. */
  async find(responseId: string): Promise<FoundResponse | undefined> {
    const named = readResponseId(responseId);
    if (named === undefined || !this.isStored(named.runId)) return undefined;
    const run = await this.load(named.runId);
    const span = run?.spans.find(({ id }) => id === responseId);
    if (run === undefined || span === undefined || span.deleted) return undefined;
    return span.spec.request.store === false ? undefined : { run, span };
  }
}

/** A response as its journal tells it. */
export function tellResponse({ run, span }: FoundResponse): Translation {
  const translation = new Translation(span, { runId: run.runId, from: span.from });
  for (const entry of run.entries) translation.takeEntry(entry);
  return translation;
}

/** Every response of a run and its output so far, in one walk through the journal. */
export function* tellResponses({
  runId,
  entries,
  spans,
}: RunResponses): Generator<{ span: Span; output: JsonObject[] }> {
  let behind: Translation | undefined;
  for (const span of spans) {
    const translation: Translation = new Translation(span, {
      ...{ runId, from: span.from },
      ...(behind === undefined ? {} : { behind }),
    });
    const begin = behind === undefined ? 0 : span.from - 1;
    for (const entry of entries.slice(begin, span.to ?? undefined)) translation.takeEntry(entry);
    yield { span, output: translation.output };
    behind = translation;
  }
}
