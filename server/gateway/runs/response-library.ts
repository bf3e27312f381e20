import { type Caller, sees } from '../../../access/caller.ts';
import { charsOf, FoldCache } from '../../../engine/journal/fold-cache.ts';
import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import { damagedJournal, readJournal, readPage } from '../../../engine/journal/read-journal.ts';
import type { ChartState } from '../../../machines/step.ts';
import { BoundedMap } from '../../../protocol/bounded-map.ts';
import { digestOf } from '../../../protocol/content/digest.ts';
import type { JournalEntry, RunEvent, RunStarted } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { oncePer } from '../../../protocol/once-per.ts';
import { listAll, type Store } from '../../../protocol/store.ts';
import type { Usage } from '../../../protocol/turn.ts';
import { memory } from '../../../stores/memory.ts';
import { estimateUsage } from '../../../text/estimate-usage.ts';
import type { UsedTurn } from '../../access/admission.ts';
import { GatewayAnswer, type PlaceInRun, type TakenAnswer } from '../answer/answer.ts';
import { type AnswerEvent, type CompleteEvent, isComplete } from '../answer/answer-event.ts';
import { itemIdOf, readResponseId, responseIdOf } from '../answer/wire-ids.ts';
import type { CompactionPlace } from '../request/compaction-items.ts';
import {
  type CallTools,
  isAnswered,
  type Members,
  memberIn,
  noteIn,
  type Places,
  RESPONSES,
  type RecordedRequest,
  type ResponseHead,
  type ResponseSpec,
  specIn,
  wholeSpec,
} from './response-spec.ts';

/** A store for runs that nothing but their requests reads: it shares no text, has no feed, and is not verified. */
function ownStore(): Store {
  const { deltas: _, feed: __, ...store } = memory();
  return { ...store, hashes: false };
}

export type FoundResponse = { run: RunResponses; span: ItemSpan };

const MOST_UNSTORED = 1_000;

/**
 * The runs of the gateway: stored, or begun with `store: false`. Those are in memory, or in the store if they are kept for
 * the page. Either way requests find them only until they are forgotten. Requests use `seenBy`.
 */
export class ResponseLibrary {
  readonly store: Store;
  readonly #keepsUnstored: boolean;
  readonly #unstored = new Map<string, Store>();
  readonly #divided = new FoldCache<DividedJournal>();
  /** Members of requests, by digest. */
  readonly #members = new BoundedMap<string, JsonValue>(MOST_MEMBER_CHARS);

  constructor(store: Store, { keepsUnstored }: { keepsUnstored: boolean }) {
    this.store = store;
    this.#keepsUnstored = keepsUnstored;
  }

  /** Where a run that begins with this request is. */
  storeFor(request: Pick<RecordedRequest, 'store'>): Store {
    return this.keeps(request) ? this.store : ownStore();
  }

  /** Whether a run that begins with this request is in the store. */
  keeps({ store }: Pick<RecordedRequest, 'store'>): boolean {
    return store !== false || this.#keepsUnstored;
  }

  /** What the caller may refer to. `ownRunId` is an unstored run that the connection may use. */
  seenBy(caller: Caller, ownRunId?: string): VisibleResponses {
    return new VisibleResponses(this, caller, ownRunId);
  }

  storeOf(runId: string): Store {
    return this.#unstored.get(runId) ?? this.store;
  }

  isStored(runId: string): boolean {
    return !this.#unstored.has(runId);
  }

  rememberUnstored(runId: string, store: Store): void {
    const [oldest] = this.#unstored.keys();
    if (this.#unstored.size >= MOST_UNSTORED && oldest !== undefined) this.#unstored.delete(oldest);
    this.#unstored.set(runId, store);
  }

  /** The ids of runs in the store that requests find only as long as this process runs. */
  get kept(): string[] {
    return [...this.#unstored].flatMap(([runId, store]) => (store === this.store ? [runId] : []));
  }

  forgetUnstored(runId: string): void {
    this.#unstored.delete(runId);
    this.#divided.drop(runId);
  }

  /** Whether the run is only in the store for the page: requests must not find it. */
  isForgotten({ runId, started }: RunResponses): boolean {
    return this.isStored(runId) && specIn(started)?.request.store === false;
  }

  /** `undefined` for an unknown run, and for one that the gateway did not start. */
  async load(runId: string): Promise<RunResponses | undefined> {
    const store = this.storeOf(runId);
    const found = await this.#divided.load(store, runId, async (before, page) => {
      const members = await this.#membersFor(store, runId, page);
      return before === undefined ? DividedJournal.begin(page, members) : before.continue(page, members);
    });
    return found?.fold.run;
  }

  /** The members that the requests in these entries have from earlier runs. Throws `journal-damaged`. */
  async #membersFor(store: Store, runId: string, page: readonly JournalEntry[]): Promise<Members> {
    const members = new Map<string, JsonValue>();
    for (const { seq, event } of page) {
      for (const [name, place] of Object.entries(specIn(event)?.like ?? {})) {
        if (typeof place === 'number' || members.has(place.digest)) continue;
        const member = this.#members.get(place.digest) ?? (await readMember(store, place, name));
        if (member === undefined)
          throw damagedJournal(runId, seq, `needs the ${name} of entry ${place.seq} of run ${place.runId}`);
        this.#members.set(place.digest, member, charsOf(member));
        members.set(place.digest, member);
      }
    }
    return members;
  }
}

async function readMember(
  store: Store,
  { runId, seq, digest }: Exclude<Places[string], number>,
  name: string,
): Promise<JsonValue | undefined> {
  const [entry] = await readPage(store, runId, seq - 1, { entries: 1 });
  const member = memberIn(entry?.event, name);
  return member !== undefined && digestOf(member) === digest ? member : undefined;
}

/** How much is kept of members of requests, in characters. */
const MOST_MEMBER_CHARS = 16 * 1024 * 1024;

/** The only way from an id in a request to a response. Those of other callers are as if they did not exist. */
export class VisibleResponses {
  readonly #library: ResponseLibrary;
  readonly #caller: Caller;
  readonly #ownRunId: string | undefined;

  constructor(library: ResponseLibrary, caller: Caller, ownRunId?: string) {
    this.#library = library;
    this.#caller = caller;
    this.#ownRunId = ownRunId;
  }

  /** Whether the run counts as stored, maybe as the connection's own. */
  isStored(runId: string): boolean {
    return runId === this.#ownRunId || this.#library.isStored(runId);
  }

  /** A run with a response of the caller; others' count as deleted, and a compaction has none. */
  async load(runId: string): Promise<RunResponses | undefined> {
    const run = await this.loadAny(runId);
    return run?.spans.some(({ spec }) => spec.compacts === true) ? undefined : run;
  }

  /** Also a run that only compacts. */
  async loadAny(runId: string): Promise<RunResponses | undefined> {
    const run = await this.#library.load(runId);
    return run === undefined || this.#library.isForgotten(run) ? undefined : this.#show(run);
  }

  readonly #show = oncePer((run: RunResponses): RunResponses | undefined => {
    const isSeen = ({ spec }: ItemSpan) => sees(this.#caller, spec.caller);
    if (!run.spans.some(isSeen)) return undefined;
    const spans = run.spans.map(span => (isSeen(span) ? span : { ...span, deleted: true }));
    return { ...run, spans: run.runId === this.#ownRunId ? spans.map(countAsStored) : spans };
  });

  /** The run and its context directly after a compaction; `isWhole`: it replaced all before it. */
  async findCompaction({ runId, count }: CompactionPlace) {
    const run = await this.#library.load(runId);
    const entry = run?.entries.filter(({ event }) => event.type === 'transcript.compacted')[count - 1];
    if (run === undefined || entry === undefined || this.#library.isForgotten(run)) return undefined;
    const span = run.spans.find(({ from, to }) => from <= entry.seq && entry.seq <= (to ?? entry.seq));
    if (span === undefined || span.deleted || span.spec.request.store === false) return undefined;
    if (!sees(this.#caller, span.spec.caller)) return undefined;
    const { context } = stateAt(run, entry.seq);
    return { run, context, isWhole: span.spec.compacts !== true };
  }

  async find(responseId: string): Promise<FoundResponse | undefined> {
    const named = readResponseId(responseId);
    if (named === undefined || !this.isStored(named.runId)) return undefined;
    const run = await this.load(named.runId);
    const span = run?.spans.find(({ id }) => id === responseId);
    if (run === undefined || span === undefined || span.deleted) return undefined;
    return span.spec.request.store === false ? undefined : { run, span };
  }
}

function countAsStored(span: ItemSpan): ItemSpan {
  const { spec } = span;
  return { ...span, spec: { ...spec, request: { ...spec.request, store: true } } };
}

/** The last unstored response of a connection, forgotten with it, as are earlier ones that still wait. */
export class UnstoredChain {
  readonly #library: ResponseLibrary;
  readonly #waiting = new Set<string>();
  #last: { responseId: string; runId: string } | null = null;

  constructor(library: ResponseLibrary) {
    this.#library = library;
  }

  get runId(): string | undefined {
    return this.#last?.runId;
  }

  endsWith(responseId: string | undefined): boolean {
    return responseId !== undefined && this.#last?.responseId === responseId;
  }

  keep(last: { id: string; runId: string }): void {
    const replaced = last.runId === this.runId ? undefined : this.runId;
    if (replaced !== undefined && !this.#waiting.has(replaced)) this.#library.forgetUnstored(replaced);
    this.#waiting.delete(last.runId);
    this.#last = { responseId: last.id, runId: last.runId };
  }

  /** Until the chain is forgotten as a whole. */
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

/** The fold of a run's entries up to this one. */
export function stateAt({ started, entries, runId }: RunResponses, at: number): ChartState {
  return entries
    .filter(({ seq }) => seq > 1 && seq <= at)
    .reduce((state, entry) => foldEntry(state, entry, runId), beginFold(started));
}

export function eventsOf(found: FoundResponse): AnswerEvent[] {
  const { run, span } = found;
  const begin = placeBefore(found);
  const answer = new GatewayAnswer(span.spec, { runId: run.runId, from: span.from, begin });
  return run.entries.slice(begin?.seq ?? 0).flatMap(entry => answer.takeEntry(entry));
}

/** Where the answer begins, if that is known without its run's earlier entries. */
export function placeBefore({ run, span }: FoundResponse): PlaceInRun | undefined {
  return run.spans.at(-1)?.id === span.id ? run.beforeLast : undefined;
}

export function mayRetry(found: FoundResponse): boolean {
  return eventsOf(found).some(event => event.type === 'ended' && event.retryAfter !== null);
}

/** Every response of a run with the items that it shows so far, in one pass over the journal. */
export function* shownItems({
  runId,
  entries,
  spans,
}: RunResponses): Generator<{ span: ItemSpan; shown: CompleteEvent[] }> {
  let begin: PlaceInRun | undefined;
  for (const span of spans) {
    const { from, spec } = span;
    const answer: GatewayAnswer = new GatewayAnswer(spec, { runId, from, begin });
    const read = entries.slice(begin?.seq ?? 0, span.to ?? undefined);
    yield { span, shown: read.flatMap(entry => answer.takeEntry(entry)).filter(isComplete) };
    begin = answer.place;
  }
}

export type ItemSpan = ResponseHead & {
  seq: number;
  /** The `seq` of its first entry, directly after the previous response. */
  from: number;
  /** The `seq` of its last entry; `null` while it is in progress. */
  to: number | null;
  deleted: boolean;
  /** The entries that have the members of its request. */
  places: Places;
};

type Turn = Extract<RunEvent, { type: 'turn.completed' }> & { retries: number };

export type RunResponses = {
  runId: string;
  started: RunStarted;
  entries: readonly JournalEntry[];
  state: ChartState;
  spans: readonly ItemSpan[];
  /** The completed turns, each with the number of failed attempts before it. */
  turns: readonly Turn[];
  taken: readonly TakenAnswer[];
  tools: CallTools;
  /** What its transcript was before each compaction. */
  compacted: readonly Item[];
  /** Where the last response begins; `undefined` for the first. */
  beforeLast?: PlaceInRun | undefined;
};

type Division = {
  started: RunStarted;
  entries: readonly JournalEntry[];
  /** The complete responses. */
  spans: ItemSpan[];
  current: ItemSpan | null;
  turns: Turn[];
  taken: readonly TakenAnswer[];
  retries: number;
  deleted: ReadonlySet<string>;
  compacted: Item[];
  /** After the last entry. */
  place: PlaceInRun;
  /** After the last complete response; `undefined` before. */
  answered: PlaceInRun | undefined;
  beforeLast: PlaceInRun | undefined;
};

/** A journal that is divided into responses. It does not change: `continue` returns another one. */
export class DividedJournal {
  readonly run: RunResponses;
  readonly #division: Division;

  private constructor(division: Division) {
    this.#division = division;
    const { current, deleted, place, retries: _, answered: __, ...kept } = division;
    const spans = (current === null ? division.spans : [...division.spans, current]).map(span =>
      deleted.has(span.id) ? { ...span, deleted: true } : span,
    );
    const { state, tools } = place;
    this.run = { ...kept, runId: kept.started.runId, spans, state, tools };
  }

  /** `entries`: the first of a journal. `undefined` if the gateway did not start the run. */
  static begin(entries: readonly JournalEntry[], members: Members): DividedJournal | undefined {
    const [first, ...rest] = entries;
    if (first?.event.type !== 'run.started' || first.event.agent.name !== RESPONSES) return undefined;
    const started = first.event;
    const begun = specIn(started);
    const spec = begun && wholeSpec(begun, () => undefined, members);
    if (spec === undefined) return undefined;
    const answer = beforeAnswer(started.runId, spec);
    answer.takeEntry(first);
    const isFork = started.forkOf !== undefined;
    const current = isFork ? null : spanOf(started.runId, { seq: 1, from: 1, createdAt: started.at, spec });
    const none = { spans: [], turns: [], taken: [], retries: 0, deleted: new Set<string>(), compacted: [] };
    const place = { place: answer.place, answered: undefined, beforeLast: undefined };
    const divided = new DividedJournal({ started, entries: [first], current, ...none, ...place });
    return divided.continue(rest, members);
  }

  continue(more: readonly JournalEntry[], members: Members): DividedJournal {
    const { started, entries, spans, turns, taken, deleted, compacted, place, ...last } = this.#division;
    const { runId } = started;
    const spec = specIn(started);
    if (spec === undefined || more.length === 0) return this;
    const answer = beforeAnswer(runId, spec, place);
    const withMore = { spans: spans.slice(), turns: turns.slice(), compacted: compacted.slice() };
    let { current, retries, answered, beforeLast } = last;
    const gone = new Set(deleted);
    const all = [...entries, ...more];
    const close = (seq: number) => {
      if (current !== null) withMore.spans.push({ ...current, to: seq });
      current = null;
      answered = answer.place;
    };
    for (const entry of more) {
      const { event, seq } = entry;
      const note = noteIn(event);
      const asked =
        note?.type === 'asked' ? wholeSpec(note.spec, at => all[at - 1]?.event, members) : undefined;
      // What a fork copied belongs to responses of the original run.
      const endsCopy = event.type === 'run.noted' && started.forkOf !== undefined && answered === undefined;
      if (endsCopy || (asked !== undefined && current !== null)) close(seq - 1);
      if (asked !== undefined) {
        beforeLast = answered;
        const from = (answered?.seq ?? 0) + 1;
        current = spanOf(runId, { seq, from, createdAt: event.at, spec: asked });
      }
      if (event.type === 'transcript.compacted')
        withMore.compacted.push(...answer.place.state.context.transcript);
      answer.takeEntry(entry);
      if (event.type === 'turn.failed' || event.type === 'run.quarantined') retries += 1;
      if (event.type === 'turn.completed') {
        withMore.turns.push({ ...event, retries });
        retries = 0;
      }
      if (note?.type === 'deleted') gone.add(note.responseId);
      if (current !== null && isAnswered(answer.state, current.spec)) close(seq);
    }
    const read = {
      started,
      entries: all,
      taken: [...taken, ...answer.taken],
      deleted: gone,
      place: answer.place,
    };
    return new DividedJournal({ ...read, ...withMore, current, retries, answered, beforeLast });
  }
}

/** Tells nothing: it only knows what is before an answer. */
function beforeAnswer(runId: string, spec: ResponseSpec, begin?: PlaceInRun): GatewayAnswer {
  return new GatewayAnswer(spec, { runId, from: Number.POSITIVE_INFINITY, begin });
}

function spanOf(runId: string, begun: Pick<ItemSpan, 'seq' | 'from' | 'createdAt' | 'spec'>): ItemSpan {
  const { request, like } = begun.spec;
  const own = Object.keys(request).map(name => [name, begun.seq] as const);
  const places = { ...Object.fromEntries(own), ...like };
  return { id: responseIdOf(runId, begun.seq), ...begun, to: null, deleted: false, places };
}

/** Without decisions and results of calls. */
export function inputOf({ started, entries }: RunResponses, { seq, to, spec }: ItemSpan): Item[] {
  const { lists, restored = [] } = spec;
  if (seq === 1) return started.input.filter(({ id = '' }) => !lists.includes(id) && !restored.includes(id));
  const messages = new Set(spec.messages);
  return entries
    .slice(seq, to ?? undefined)
    .flatMap(({ event }) =>
      event.type === 'message.received' && event.by === RESPONSES
        ? event.items.filter(({ id = '' }) => messages.has(id))
        : [],
    );
}

export function requestIdOf(run: RunResponses, callId: string): string {
  let turn = 0;
  for (const { event } of run.entries) {
    if (event.type !== 'turn.completed') continue;
    turn += 1;
    const place = event.calls.findIndex(call => call.callId === callId);
    if (place !== -1) return itemIdOf({ kind: 'mcpr', runId: run.runId, turn, place });
  }
  return callId;
}

/** The model calls since `from` (ms) of the gateway's runs, with their callers. Damaged runs are logged. */
export async function* recordedUsage(
  store: Store,
  from: number,
  log: (line: string) => void,
): AsyncGenerator<UsedTurn, void> {
  const onDamaged = ({ message }: Error) => log(`Usage of a run is not counted: ${message}`);
  for await (const { runId, updatedAt } of listAll(store, { agent: RESPONSES, onDamaged })) {
    if (updatedAt < from) continue;
    try {
      for (const turn of usageIn(await readJournal(store, runId), runId)) if (turn.at >= from) yield turn;
    } catch (error) {
      onDamaged(error as Error);
    }
  }
}

/** A summary by a function, or one that failed before a model was asked, used nothing. */
function hasUsage({ usage, usageUnknown }: { usage: Usage | null; usageUnknown?: true }): boolean {
  return usage !== null || usageUnknown === true;
}

/**
 * Without the entries that a fork copied: they count for the run they are from. Usage that the journal does not have is
 * estimated from the run's own transcript.
 */
function usageIn(entries: readonly JournalEntry[], runId: string): UsedTurn[] {
  let spec: ResponseSpec | undefined;
  let state: ChartState | undefined;
  let folded = 0;
  const estimate = (at: number, items: readonly Item[]) => {
    for (const entry of entries.slice(folded, at))
      state =
        entry.event.type === 'run.started' ? beginFold(entry.event) : state && foldEntry(state, entry, runId);
    folded = at;
    const { transcript = [] } = state?.context ?? {};
    return estimateUsage({ transcript, tools: [] }, { items: [...items] });
  };
  return entries.flatMap(({ event }, at) => {
    if (event.type !== 'run.started' || event.forkOf === undefined) spec = specIn(event) ?? spec;
    if (spec?.caller === undefined) return [];
    const isCompaction = event.type === 'transcript.compacted' || event.type === 'compaction.failed';
    if (event.type !== 'turn.completed' && !(isCompaction && hasUsage(event))) return [];
    const usage = event.usage ?? estimate(at, event.type === 'turn.completed' ? event.items : []);
    return [{ caller: spec.caller.name, at: event.at, model: spec.model, usage }];
  });
}
