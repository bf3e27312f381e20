import type { CallResult } from '../../../machines/context.ts';
import { mergeInheritance } from '../../../machines/ledger.ts';
import type { Inheritance } from '../../../protocol/event.ts';
import type { Item, ToolCallItem } from '../../../protocol/item.ts';
import { oncePer } from '../../../protocol/once-per.ts';
import { type CompleteEvent, isAsyncCall } from '../answer/answer-event.ts';
import { blocksIn } from '../answer/turn-items.ts';
import { type ItemPlace, readItemId, readResponseId } from '../answer/wire-ids.ts';
import { type CompactionPlace, isUpstreamCompaction, markSummary } from '../request/compaction-items.ts';
import type { InputItem } from '../request/gateway-request.ts';
import {
  type FoundResponse,
  type ItemSpan,
  inputOf,
  type RunResponses,
  shownItems,
  type VisibleResponses,
} from '../runs/response-library.ts';
import { type ExposedTool, isServerTool, toolNamed } from '../runs/response-spec.ts';
import { type WorkCall, workIn } from './client-work.ts';

/** The tool that a call in the input was made for. `modelName`: the name the model called, if that is stored. */
export type CallOrigin = { tool: ExposedTool; modelName?: string };

export type AskedApproval = { run: RunResponses; callId: string; digest: string; shown: CompleteEvent };

/** In one request: each is read from a journal. */
const MOST_COMPACTIONS = 50;

/**
 * Resolves the ids in one request. Each run is read once.
 *
 * F1 An id resolves only to an item that a response shows, not to other parts of its run.
 * F2 All ids of a request resolve within one chain: that of the previous response, or else that of the newest response
 *    among the request's references and the responses after it in the same chain. Without a previous response, branches
 *    of that chain are included.
 * F3 Input items are found only with a previous response: clients choose their ids, so others could guess them.
 * F4 Items of deleted responses are never found; references never find items of responses that are not stored. While
 *    such a response waits, items of it that the client returns are recognized.
 */
export class References {
  /** By call id. `resolveInput` adds to them. */
  readonly origins = new Map<string, CallOrigin>();
  /** What the compactions in the input hand on. */
  inherits: Inheritance | undefined;
  /** The ids of items that no client sent: those that compactions in the input kept. */
  readonly restored = new Set<string>();
  #restorations = 0;
  readonly #library: VisibleResponses;
  readonly #previous: FoundResponse | undefined;
  readonly #input: readonly InputItem[];
  readonly #runs = new Map<string, Promise<RunResponses | undefined>>();
  readonly #shown = new Map<string, Map<string, { span: ItemSpan; item: CompleteEvent }[]>>();
  #chain: Promise<ResponseChain | undefined> | undefined;

  constructor(library: VisibleResponses, previous: FoundResponse | undefined, input: readonly InputItem[]) {
    this.#library = library;
    this.#previous = previous;
    this.#input = input;
  }

  /** Differs in all requests of a chain. */
  get scope(): string {
    return this.#previous === undefined ? '' : `${this.#previous.span.id.replace('resp_', '')}_`;
  }

  async resolve(id: string): Promise<readonly Item[] | undefined> {
    const chain = await this.chain();
    const place = readItemId(id);
    const output = place && chain && (await this.#resolveOutput(id, { place, chain }));
    if (output !== undefined || this.#previous === undefined) return output;
    const input = await chain?.inputNamed(id);
    return input && [input];
  }

  async recognize(id: string): Promise<readonly Item[] | undefined> {
    const place = readItemId(id);
    if (place === undefined || this.#library.isStored(place.runId)) return await this.resolve(id);
    const run = await this.#load(place.runId);
    const shown = run && this.#shownIn(run).get(id);
    const kept = shown?.find(({ span }) => !span.deleted);
    return run && kept && this.#itemsAt(run, kept.span, place, id);
  }

  async idOfCall(runId: string, callId: string): Promise<string | undefined> {
    const run = await this.#load(runId);
    const shown = run === undefined ? [] : [...this.#shownIn(run).values()].flat();
    return shown.find(({ item }) => item.type === 'call.given' && item.call.callId === callId)?.item.id;
  }

  /** What a compaction left, as items; `isWhole`: it stands for all before it, not only for what it replaced. */
  async restore(place: CompactionPlace): Promise<{ items: Item[]; isWhole: boolean } | undefined> {
    this.#restorations += 1;
    const found =
      this.#restorations > MOST_COMPACTIONS ? undefined : await this.#library.findCompaction(place);
    if (found === undefined) return undefined;
    const { run, context, isWhole } = found;
    const made = context.compaction.items;
    const isMade = ({ id = '' }: Item) => made.includes(id);
    const inherits = { tokens: 0, ledger: context.ledger, items: made };
    this.inherits = this.inherits === undefined ? inherits : mergeInheritance(this.inherits, inherits);
    const items = context.transcript
      .filter(item => isWhole || isMade(item))
      .map(item => (isMade(item) ? markSummary(item, place) : item));
    for (const item of items) {
      if (item.id !== undefined && !isMade(item)) this.restored.add(item.id);
      if (item.type === 'tool_call') this.#noteOrigin(run, item);
    }
    return { items, isWhole };
  }

  /** Items that a client kept as those of a compaction, which it could have forged: they hand nothing on but themselves. */
  receive(items: readonly Item[], name: string): Item[] {
    const named = items.map((item, at) => ({ ...item, id: `${name}_${at}` }));
    const ledger = { fresh: [], past: {}, counts: {} };
    const inherits = { tokens: 0, ledger, items: named.map(({ id }) => id) };
    this.inherits = this.inherits === undefined ? inherits : mergeInheritance(this.inherits, inherits);
    return named;
  }

  /** A call of the chain whose work the client does. */
  async findWork(callId: string): Promise<WorkCall | undefined> {
    return this.#previous && (await (await this.chain())?.workOf(callId));
  }

  chain(): Promise<ResponseChain | undefined> {
    this.#chain ??= this.#findChain();
    return this.#chain;
  }

  /** With the request in the input (`passed`), also of an unstored response, or one after the previous response. */
  async findApproval(id: string, { passed }: { passed: boolean }): Promise<AskedApproval | undefined> {
    const place = readItemId(id);
    if (place?.kind !== 'mcpr' || (this.#previous === undefined && !passed)) return undefined;
    const reach = this.#previous && (await (await this.chain())?.reachOf(place.runId));
    const run = reach?.run ?? (passed ? await this.#load(place.runId) : undefined);
    if (run === undefined) return undefined;
    const shown = (this.#shownIn(run).get(id) ?? []).filter(({ span }) => {
      if (!passed) return reach !== undefined && isWithin(reach, span);
      return !span.deleted && (reach !== undefined || this.#isNext(span));
    });
    const call = run.turns[place.turn - 1]?.calls[place.place];
    const [first] = shown;
    if (first === undefined || call === undefined) return undefined;
    return { run, callId: call.callId, digest: call.digest, shown: first.item };
  }

  #isNext({ spec }: ItemSpan): boolean {
    return this.#previous === undefined || spec.request.previousResponseId === this.#previous.span.id;
  }

  async #findChain(): Promise<ResponseChain | undefined> {
    if (this.#previous !== undefined) return this.#chainOf(this.#previous);
    const idsOf = (items: readonly InputItem[]) => items.flatMap(({ id }) => (id === undefined ? [] : [id]));
    const references = this.#input.filter(({ type }) => type === 'item_reference');
    const others = this.#input.filter(({ type }) => type !== 'item_reference');
    const referred = await this.#newestOf(idsOf(references));
    const newest = await this.#newestOf(idsOf([...references, ...others]));
    const chain = newest && this.#chainOf(newest);
    return referred === undefined || (await chain?.has(referred)) ? chain : this.#chainOf(referred);
  }

  #chainOf(head: FoundResponse): ResponseChain {
    return new ResponseChain(head, runId => this.#load(runId));
  }

  async #newestOf(ids: readonly string[]): Promise<FoundResponse | undefined> {
    let newest: FoundResponse | undefined;
    for (const id of ids) {
      const runId = readItemId(id)?.runId;
      const run = runId !== undefined && this.#library.isStored(runId) ? await this.#load(runId) : undefined;
      const span = run && this.#spanOf(id, { run, upTo: Infinity });
      if (span && span.createdAt >= (newest?.span.createdAt ?? 0)) newest = { run, span };
    }
    return newest;
  }

  async #resolveOutput(id: string, { place, chain }: { place: ItemPlace; chain: ResponseChain }) {
    if (!this.#library.isStored(place.runId)) return undefined;
    const reach = (await chain.reachOf(place.runId)) ?? (await this.#branchOf(id, { place, chain }));
    if (reach && isWithdrawn(reach.run, place)) return [];
    const span = reach && this.#spanOf(id, reach);
    return span && this.#itemsAt(reach.run, span, place, id);
  }

  /** The part of a run that shows the item, if it follows a response of the chain. */
  async #branchOf(id: string, { place, chain }: { place: ItemPlace; chain: ResponseChain }) {
    if (this.#previous !== undefined) return undefined;
    const run = await this.#load(place.runId);
    const span = run && this.#spanOf(id, { run, upTo: Infinity });
    const branch = run && span && this.#chainOf({ run, span });
    return (await branch?.joins(chain)) ? await branch?.reachOf(place.runId) : undefined;
  }

  #itemsAt(run: RunResponses, span: ItemSpan, place: ItemPlace, id: string): Item[] | undefined {
    const items = itemsAt(run, span, place, id);
    for (const item of items ?? []) if (item.type === 'tool_call') this.#noteOrigin(run, item);
    return items;
  }

  #noteOrigin(run: RunResponses, { callId, name }: ToolCallItem): void {
    const tool = run.tools.of(callId);
    if (tool !== undefined) this.origins.set(callId, { tool, modelName: name });
  }

  #spanOf(id: string, reach: Reach): ItemSpan | undefined {
    const shown = this.#shownIn(reach.run).get(id);
    return shown?.find(({ span }) => isWithin(reach, span))?.span;
  }

  #load(runId: string): Promise<RunResponses | undefined> {
    const loading = this.#runs.get(runId) ?? this.#library.load(runId);
    this.#runs.set(runId, loading);
    return loading;
  }

  #shownIn(run: RunResponses) {
    const known = this.#shown.get(run.runId);
    if (known !== undefined) return known;
    const items = [...shownItems(run)].flatMap(({ span, shown }) => shown.map(item => ({ span, item })));
    const byId = Map.groupBy(items, ({ item }) => item.id);
    this.#shown.set(run.runId, byId);
    return byId;
  }
}

function isWithdrawn({ turns }: RunResponses, { kind, turn, retry = 0 }: ItemPlace): boolean {
  return (kind === 'msg' || kind === 'rs') && retry < (turns[turn - 1]?.retries ?? 0);
}

function itemsAt(
  run: RunResponses,
  span: ItemSpan,
  { kind, turn, place }: ItemPlace,
  id: string,
): Item[] | undefined {
  if (kind === 'mcpl') return run.started.input.filter(item => item.type === 'tool_list' && item.id === id);
  const { items = [], calls = [] } = run.turns[turn - 1] ?? {};
  if (kind === 'msg' || kind === 'rs') {
    const sealed = span.spec.request.include?.includes('reasoning.encrypted_content') === true;
    const wanted = kind === 'msg' ? 'message' : 'reasoning';
    const block = blocksIn(items, { sealed }).find(each => each.kind === wanted && each.place === place);
    const taken = run.taken.find(each => kind === 'msg' && each.turn === turn && each.place === place);
    if (block === undefined) return taken && [{ ...taken.message, id }];
    return block.kind === 'provider' ? undefined : block.items;
  }
  if (kind === 'cmp') return items.filter(isUpstreamCompaction).slice(place, place + 1);
  const provided = blocksIn(items, { sealed: false }).find(
    block => block.kind === 'provider' && block.as === kind && block.place === place,
  );
  if (provided?.kind === 'provider') return [{ ...provided.item, id }];
  const callId = calls[place]?.callId ?? '';
  const call = items.find(item => item.type === 'tool_call' && item.callId === callId);
  if (call?.type !== 'tool_call') return undefined;
  const isWork = calls[place]?.background === true;
  if ((kind === 'fc' || kind === 'ctc') && !isWork) return [call];
  if (kind === 'mcpr') {
    const tool = run.tools.of(callId);
    const { name, label } = isServerTool(tool) ? tool : { name: call.name, label: '' };
    return [{ id, type: 'approval_request', callId: id, name, arguments: call.arguments || '{}', label }];
  }
  const result = resultOf(run, callId);
  return result === undefined ? [call] : [call, { type: 'tool_result', callId, ...result }];
}

function resultOf({ state, compacted }: RunResponses, callId: string): CallResult | undefined {
  const { calls, transcript } = state.context;
  const call = calls.find(known => known.callId === callId);
  if (call !== undefined) return call.status === 'settled' ? call.result : undefined;
  return [...compacted, ...transcript]
    .filter(item => item.type === 'tool_result')
    .findLast(item => item.callId === callId);
}

/** Its entries up to `upTo` belong to the chain. */
type Reach = { run: RunResponses; upTo: number };

/** In runs; earlier ones are not found. */
const LONGEST = 1_000;

/** A response and what it follows, nearest first, also over continued and forked runs. Read lazily. */
export class ResponseChain {
  readonly head: FoundResponse;
  readonly #load: (runId: string) => Promise<RunResponses | undefined>;
  readonly #reaches = new Map<string, Reach>();
  readonly #inputs = new Map<string, Item>();
  readonly #work = new Map<string, WorkCall | undefined>();
  #worksRead = 0;
  #last: Reach | undefined;
  #isComplete = false;

  constructor(head: FoundResponse, load: (runId: string) => Promise<RunResponses | undefined>) {
    this.head = head;
    this.#load = load;
  }

  async has({ run, span }: FoundResponse): Promise<boolean> {
    const reach = await this.reachOf(run.runId);
    return reach !== undefined && isWithin(reach, span);
  }

  async reachOf(runId: string): Promise<Reach | undefined> {
    while (!this.#reaches.has(runId) && !this.#isComplete) await this.#extend();
    return this.#reaches.get(runId);
  }

  async inputNamed(id: string): Promise<Item | undefined> {
    while (!this.#inputs.has(id) && !this.#isComplete) await this.#extend();
    return this.#inputs.get(id);
  }

  /** By call id: the newest call that has it counts. `undefined` if it waits, or waited, for its output. */
  async workOf(callId: string): Promise<WorkCall | undefined> {
    while (!this.#work.has(callId)) {
      const reach = [...this.#reaches.values()][this.#worksRead];
      if (reach !== undefined) this.#readWork(reach);
      else if (this.#isComplete) return undefined;
      else await this.#extend();
    }
    return this.#work.get(callId);
  }

  /** The responses are only told again for work, because a call of it may have been refused. */
  #readWork(reach: Reach): void {
    this.#worksRead += 1;
    const { run } = reach;
    for (const span of run.spans.filter(one => isWithin(reach, one)).toReversed()) {
      const work = workIn(inputOf(run, span), ({ name }) => toolNamed(span.spec.exposed, name));
      for (const { event } of run.entries.slice(span.from - 1, span.to ?? undefined))
        for (const { callId, background } of event.type === 'turn.completed' ? event.calls : [])
          work.set(callId, background === true ? givenWork(run).get(callId) : undefined);
      for (const [callId, call] of work) if (!this.#work.has(callId)) this.#work.set(callId, call);
    }
  }

  async joins(other: ResponseChain): Promise<boolean> {
    let known = 0;
    for (;;) {
      for (const runId of [...this.#reaches.keys()].slice(known))
        if ((await other.reachOf(runId)) !== undefined) return true;
      known = this.#reaches.size;
      if (this.#isComplete) return false;
      await this.#extend();
    }
  }

  async #extend(): Promise<void> {
    const reach = await this.#nextReach();
    if (reach === undefined || this.#reaches.has(reach.run.runId) || this.#reaches.size >= LONGEST) {
      this.#isComplete = true;
      return;
    }
    const { run } = reach;
    this.#last = reach;
    this.#reaches.set(run.runId, reach);
    for (const span of run.spans.filter(span => isWithin(reach, span)))
      for (const item of inputOf(run, span))
        if (item.id !== undefined && !this.#inputs.has(item.id)) this.#inputs.set(item.id, item);
  }

  async #nextReach(): Promise<Reach | undefined> {
    if (this.#last === undefined) return { run: this.head.run, upTo: this.head.span.to ?? Infinity };
    const { spans, started } = this.#last.run;
    const { forkOf, continues } = started;
    const before = forkOf?.runId ?? continues;
    if (before === undefined) return await this.#reachUpTo(spans[0]?.spec.refersTo);
    const run = await this.#load(before);
    return run && { run, upTo: forkOf?.at ?? Infinity };
  }

  async #reachUpTo(responseId = ''): Promise<Reach | undefined> {
    const runId = readResponseId(responseId)?.runId;
    const run = runId === undefined ? undefined : await this.#load(runId);
    const span = run?.spans.find(({ id }) => id === responseId);
    return run && span && { run, upTo: span.to ?? Infinity };
  }
}

/** The work that a run's responses gave to their clients, by call id. */
const givenWork = oncePer((run: RunResponses): ReadonlyMap<string, WorkCall> => {
  const given = [...shownItems(run)]
    .flatMap(({ shown }) => shown)
    .filter(event => event.type === 'call.given');
  return new Map(
    given
      .filter(({ call }) => isAsyncCall(call))
      .map(({ call: { callId, name }, as }) => [callId, { name, as, isOver: false }]),
  );
});

function isWithin({ upTo }: Reach, { to, deleted, spec }: ItemSpan): boolean {
  return !deleted && spec.request.store !== false && (to ?? Infinity) <= upTo;
}
