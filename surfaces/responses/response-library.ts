import { readJournal } from '../../engine/read-journal.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { Store } from '../../protocol/store.ts';
import type { ResolveItem } from './input-items.ts';
import { divideJournal, type RunResponses, type Span } from './run-responses.ts';
import { Translation } from './translation.ts';
import { saidIn } from './turn-writer.ts';
import { type ItemPlace, readItemId, readResponseId } from './wire-ids.ts';

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
    const span = run?.spans.find(({ seq }) => seq === named.seq);
    if (run === undefined || span === undefined || span.deleted) return undefined;
    return span.spec.request.store === false ? undefined : { run, span };
  }

  /**
   * Finds what items' ids lead to, reading each run once; items of deleted responses, and of those that are
   * not stored, are not found.
   */
  resolver(): ResolveItem {
    const runs = new Map<string, Promise<RunResponses | undefined>>();
    return async id => {
      const place = readItemId(id);
      if (place === undefined) return await this.#findInput(id);
      const { runId } = place;
      if (!this.isStored(runId)) return undefined;
      const loading = runs.get(runId) ?? this.load(runId);
      runs.set(runId, loading);
      const run = await loading;
      return run && itemsAt(run, place, id);
    };
  }

  async #findInput(id: string): Promise<readonly Item[] | undefined> {
    const found = await this.store.findItem(id);
    return found && [found.item];
  }
}

/** A response as its journal tells it. */
export function tellResponse({ run, span }: FoundResponse): Translation {
  const translation = new Translation(span, { runId: run.runId, from: span.from });
  for (const entry of run.entries) translation.takeEntry(entry);
  return translation;
}

/** The run's entry for one of its turns, counted from 1. */
export function entryOfTurn({ entries }: RunResponses, turn: number) {
  const completed = entries.filter(({ event }) => event.type === 'turn.completed');
  const entry: JournalEntry | undefined = completed[turn - 1];
  return entry?.event.type === 'turn.completed' ? { seq: entry.seq, event: entry.event } : undefined;
}

/** The response that tells an entry. */
export function spanAt({ spans }: RunResponses, seq: number): Span | undefined {
  return spans.find(({ from, to }) => seq >= from && seq <= (to ?? Infinity));
}

function itemsAt(run: RunResponses, { kind, turn, place }: ItemPlace, id: string): Item[] | undefined {
  const entry = entryOfTurn(run, turn);
  const span = entry && spanAt(run, entry.seq);
  if (entry === undefined || span === undefined || span.deleted) return undefined;
  const { items, calls } = entry.event;
  if (kind === 'msg' || kind === 'rs') {
    const { include } = span.spec.request;
    const sealed = Array.isArray(include) && include.includes('reasoning.encrypted_content');
    const wanted = kind === 'msg' ? 'message' : 'reasoning';
    return saidIn(items, { sealed }).find(said => said.kind === wanted && said.place === place)?.items;
  }
  const callId = calls[place]?.callId;
  const call = items.find(item => item.type === 'tool_call' && item.callId === callId);
  if (call?.type !== 'tool_call') return undefined;
  if (kind === 'fc') return [call];
  if (kind === 'mcpr') {
    const exposed = span.spec.exposed[call.name];
    const { name = call.name, label = '' } = exposed ?? {};
    return [{ id, type: 'approval_request', callId: id, name, arguments: call.arguments, label }];
  }
  const result = run.state.context.transcript.find(
    item => item.type === 'tool_result' && item.callId === callId,
  );
  return result === undefined ? [call] : [call, result];
}
