import type { Call, CallResult, Context } from '../../machines/context.ts';
import { ungated } from '../../machines/hand-off.ts';
import { closeHistory, historyIn } from '../../machines/history.ts';
import { addOlderDeeds, closeLedger } from '../../machines/ledger.ts';
import { EngineError } from '../../protocol/error.ts';
import type { HandedTo, Inheritance, People } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { PastCall } from '../../protocol/rule.ts';
import type { LastSent } from '../../protocol/sent.ts';
import type { RunLink, Store } from '../../protocol/store.ts';
import { loadRun, loadRunAt } from './load-run.ts';

/**
 * What a run has from those that it continues: their items, oldest first, the latest request, and what its own
 * compactions depend on.
 */
export type Inherited = {
  items: readonly Item[];
  sent: LastSent | null;
  inherits: Inheritance;
  /** The calls that were begun in them. */
  past: readonly PastCall[];
  people?: People;
  /** The sub-agent to which the run that is continued has handed the conversation. */
  handedTo?: HandedTo;
};

/** Whose transcript a run begins with: see `RunStarted`. */
export type Continued = Pick<Context, 'continues' | 'continuesAt'>;

type FindCached = (key: string) => Promise<Inherited> | undefined;

const MOST_ITEMS = 20_000;

const shared = new WeakMap<Store, InheritedTranscripts>();

/** `chain`: the run and those before it as the store had them, oldest first. */
type Cached = { chain: readonly RunLink[]; inherited: Promise<Inherited>; size: number };

/** Transcripts that runs inherit, cached until a run of the chain gets another entry (a redaction) or others are used more. */
export class InheritedTranscripts {
  readonly #store: Store;
  readonly #cache = new Map<string, Cached>();
  readonly #mostItems: number;
  #size = 0;

  /** Those of a store, which all who continue its runs share. */
  static of(store: Store): InheritedTranscripts {
    const known = shared.get(store) ?? new InheritedTranscripts(store);
    shared.set(store, known);
    return known;
  }

  /** `mostItems`: how many items are cached; the transcript that was used last always is. */
  constructor(store: Store, mostItems = MOST_ITEMS) {
    this.#store = store;
    this.#mostItems = mostItems;
  }

  /** Checks that a new run can continue this one. Throws `run-unknown`, or `refused` if the run has not ended. */
  async assertEnded(runId: string): Promise<void> {
    const record = await this.#store.get(runId);
    if (record === undefined)
      throw new EngineError('run-unknown', `Cannot continue run ${runId}: the store has no such run.`);
    if (record.status !== 'running' && record.status !== 'waiting') return;
    throw new EngineError(
      'refused',
      `Run ${runId} has not ended yet (${record.status}). Send the message to it instead.`,
    );
  }

  /** From all runs up to `continues`; nothing for `null`. Throws `run-unknown` if one is missing. */
  async load(continues: string | null, continuesAt?: number): Promise<Inherited> {
    if (continues === null) return NOTHING;
    const chain = await this.#store.chain(continues);
    const findCached = (key: string) => {
      const cached = this.#cache.get(key);
      return cached !== undefined && isStill(cached.chain, chain) ? cached.inherited : undefined;
    };
    const key = keyOf(continues, continuesAt);
    const inherited = findCached(key) ?? loadInherited(this.#store, continues, continuesAt, findCached);
    const cached = { chain, inherited, size: chain.length };
    this.#drop(key);
    this.#cache.set(key, cached);
    this.#size += cached.size;
    const isCached = () => this.#cache.get(key) === cached;
    inherited.then(
      ({ items }) => isCached() && this.#grow(cached, items.length),
      () => isCached() && this.#drop(key),
    );
    return await inherited;
  }

  #grow(cached: Cached, count: number): void {
    cached.size += count;
    this.#size += count;
    for (const [runId, oldest] of this.#cache) {
      if (this.#size <= this.#mostItems || oldest === cached) return;
      this.#drop(runId);
    }
  }

  #drop(runId: string): void {
    this.#size -= this.#cache.get(runId)?.size ?? 0;
    this.#cache.delete(runId);
  }
}

/** Whether the runs of a chain are the first of another, unchanged. */
function isStill(known: readonly RunLink[], chain: readonly RunLink[]): boolean {
  return known.every(({ runId, createdAt, redactions, seq }, at) => {
    const now = chain[at];
    return (
      now?.runId === runId && now.createdAt === createdAt && now.redactions === redactions && now.seq === seq
    );
  });
}

const NOTHING: Inherited = {
  items: [],
  sent: null,
  inherits: { tokens: 0, ledger: { fresh: [], past: {}, counts: {} }, items: [] },
  past: [],
};

function keyOf(runId: string, at: number | undefined): string {
  return at === undefined ? runId : `${at} ${runId}`;
}

async function loadInherited(
  store: Store,
  runId: string,
  at: number | undefined,
  findCached: FindCached,
): Promise<Inherited> {
  const { state, inherited } = await (at === undefined ? loadRun(store, runId) : loadRunAt(store, runId, at));
  const { continues, continuesAt, inbox, sent, compaction, people, config } = state.context;
  const isCompacted = compaction.count > 0;
  const older = async () =>
    continues === null
      ? NOTHING
      : await (findCached(keyOf(continues, continuesAt)) ??
          loadInherited(store, continues, continuesAt, findCached));
  const isWanted = isCompacted ? config.history === true : inherited === undefined;
  const chained = isWanted ? await older() : undefined;
  const earlier = isCompacted ? NOTHING : chained;
  const before = earlier?.items ?? inherited ?? [];
  const past = [...(chained?.past ?? historyIn(inherited ?? [])), ...closeHistory(state.context)];
  const { tokens, items: made } = compaction;
  const closed = closeLedger(state.context);
  // A run that could not be compacted did not record the deeds before it.
  const fresh = addOlderDeeds(closed.fresh, earlier?.inherits.ledger.fresh ?? []);
  const ledger = { ...closed, fresh };
  const inherits = { tokens, ledger, items: made };
  const own = at === undefined ? [...closeTranscript(state.context), ...inbox] : state.context.transcript;
  const handedTo = at === undefined ? handedToIn(state.context) : undefined;
  return { items: [...before, ...own], sent, inherits, past, people, ...omitUndefined({ handedTo }) };
}

/** With whom the conversation is after this run. A run that ended before the answer leaves it where it was. */
function handedToIn({ answeredBy, calls }: Context): HandedTo | undefined {
  if (answeredBy?.type === 'agent') {
    const { runId, call } = answeredBy;
    return { runId, call };
  }
  const [open] = calls;
  if (open?.forwards === undefined || open.status === 'settled') return undefined;
  return { runId: open.forwards, call: ungated(open) };
}

/** The transcript of an ended run, with a result for every call: a run may end in the middle of a round. */
function closeTranscript({ transcript, calls }: Context): readonly Item[] {
  const answered = new Set(transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
  const missing = transcript.flatMap((item): Item[] => {
    if (item.type !== 'tool_call' || answered.has(item.callId)) return [];
    const call = calls.find(({ callId }) => callId === item.callId);
    return [{ type: 'tool_result', callId: item.callId, ...resultOf(call) }];
  });
  return missing.length === 0 ? transcript : [...transcript, ...missing];
}

function resultOf(call: Call | undefined): CallResult {
  if (call?.result !== undefined) return call.result;
  const output =
    call?.attempt === 0
      ? 'Not run: the run ended first.'
      : 'The run ended before this call had a result. The call may or may not have taken effect.';
  return { output, isError: true };
}
