import type { Item } from '../../protocol/item.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { inputOf } from './input-listing.ts';
import { type FoundResponse, type ResponseLibrary, tellResponses } from './response-library.ts';
import type { RunResponses, Span } from './run-responses.ts';
import { resultOf } from './translation.ts';
import { saidIn } from './turn-writer.ts';
import { type ItemPlace, readItemId } from './wire-ids.ts';

/** A request for approval as a response shows it, and the call it is about. */
export type AskedApproval = { run: RunResponses; callId: string; digest: string; item: JsonObject };

/** How far a run counts for what follows a response: up to this entry. */
type Reach = { run: RunResponses; upTo: number };

/**
 * What the ids in one request lead to; each run is read once.
 *
 * F1 An id leads to what a response shows, and to nothing that happened in its run besides.
 * F2 Behind a previous response ids lead into its chain alone: to what its responses show and were asked
 *    with, up to it. Without one an id leads to what any response shows: it holds the random key of its run.
 * F3 Nothing of a response that was deleted is found, and by reference nothing of one that is not stored.
 */
export class References {
  readonly #library: ResponseLibrary;
  readonly #previous: FoundResponse | undefined;
  readonly #runs = new Map<string, Promise<RunResponses | undefined>>();
  readonly #shown = new Map<string, Map<string, { span: Span; item: JsonObject }[]>>();
  /** The runs that the previous response stands in or behind, as far as they were needed, the nearest first. */
  readonly #chain = new Map<string, Reach>();
  /** What their responses were asked with, by id. */
  readonly #inputs = new Map<string, Item>();
  #last: Reach | undefined;
  #isWhole = false;

  constructor(library: ResponseLibrary, previous: FoundResponse | undefined) {
    this.#library = library;
    this.#previous = previous;
  }

  /** What an `item_reference` leads to; `undefined` for nothing. */
  async resolve(id: string): Promise<readonly Item[] | undefined> {
    const place = readItemId(id);
    const output = place && (await this.#resolveOutput(id, place));
    return output ?? (await this.#resolveInput(id));
  }

  /**
   * The request for approval of this id. One that is `passed` along may be of a response that is not stored,
   * and of one that follows the previous response, whose output the client then hands back itself.
   */
  async findApproval(id: string, { passed }: { passed: boolean }): Promise<AskedApproval | undefined> {
    const place = readItemId(id);
    if (place?.kind !== 'mcpr' || (this.#previous === undefined && !passed)) return undefined;
    const reach = await this.#reachOf(place.runId);
    const run = reach?.run ?? (passed ? await this.#load(place.runId) : undefined);
    if (run === undefined) return undefined;
    const shown = (this.#shownIn(run).get(id) ?? []).filter(({ span }) => {
      if (!passed) return reach !== undefined && isWithin(reach, span);
      return !span.deleted && (reach !== undefined || this.#isNext(span));
    });
    const call = run.turns[place.turn - 1]?.calls[place.place];
    const [first] = shown;
    if (first === undefined || call === undefined) return undefined;
    return { run, callId: call.callId, digest: call.digest, item: first.item };
  }

  #isNext({ spec }: Span): boolean {
    return spec.request.previous_response_id === this.#previous?.span.id;
  }

  async #resolveOutput(id: string, place: ItemPlace): Promise<readonly Item[] | undefined> {
    if (!this.#library.isStored(place.runId)) return undefined;
    const reach = await this.#reachOf(place.runId);
    const shown =
      reach &&
      this.#shownIn(reach.run)
        .get(id)
        ?.find(({ span }) => isWithin(reach, span));
    return shown && itemsAt(reach.run, shown.span, place, id);
  }

  async #resolveInput(id: string): Promise<readonly Item[] | undefined> {
    while (!this.#inputs.has(id) && !this.#isWhole) await this.#extendChain();
    const input = this.#inputs.get(id);
    return input && [input];
  }

  /** How much of a run counts here; `undefined` for nothing of it. */
  async #reachOf(runId: string): Promise<Reach | undefined> {
    if (this.#previous === undefined) {
      const run = await this.#load(runId);
      return run && { run, upTo: Infinity };
    }
    while (!this.#chain.has(runId) && !this.#isWhole) await this.#extendChain();
    return this.#chain.get(runId);
  }

  /** By one run further back. */
  async #extendChain(): Promise<void> {
    const reach = await this.#nextReach();
    if (reach === undefined || this.#chain.has(reach.run.runId)) {
      this.#isWhole = true;
      return;
    }
    const { run } = reach;
    this.#last = reach;
    this.#chain.set(run.runId, reach);
    for (const span of run.spans.filter(span => isWithin(reach, span)))
      for (const item of inputOf(run, span))
        if (item.id !== undefined && !this.#inputs.has(item.id)) this.#inputs.set(item.id, item);
  }

  async #nextReach(): Promise<Reach | undefined> {
    const last = this.#last;
    if (last === undefined) {
      const { run, span } = this.#previous ?? {};
      return run && { run, upTo: span?.to ?? Infinity };
    }
    const started = last.run.entries[0]?.event;
    if (started?.type !== 'run.started') return undefined;
    const { forkOf, continues } = started;
    const before = forkOf?.runId ?? continues;
    const run = before === undefined ? undefined : await this.#load(before);
    return run && { run, upTo: forkOf?.at ?? Infinity };
  }

  #load(runId: string): Promise<RunResponses | undefined> {
    const loading = this.#runs.get(runId) ?? this.#library.load(runId);
    this.#runs.set(runId, loading);
    return loading;
  }

  #shownIn(run: RunResponses) {
    const known = this.#shown.get(run.runId) ?? new Map<string, { span: Span; item: JsonObject }[]>();
    if (this.#shown.has(run.runId)) return known;
    this.#shown.set(run.runId, known);
    for (const { span, output } of tellResponses(run))
      for (const item of output) if (typeof item.id === 'string') addTo(known, item.id, { span, item });
    return known;
  }
}

function addTo<Value>(map: Map<string, Value[]>, key: string, value: Value): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [value]);
  else known.push(value);
}

function isWithin({ upTo }: Reach, { to, deleted, spec }: Span): boolean {
  return !deleted && spec.request.store !== false && (to ?? Infinity) <= upTo;
}

/** A shown item as the transcript has it. */
function itemsAt(
  run: RunResponses,
  span: Span,
  { kind, turn, place }: ItemPlace,
  id: string,
): Item[] | undefined {
  if (kind === 'mcpl') {
    const started = run.entries[0]?.event;
    const input = started?.type === 'run.started' ? started.input : [];
    return input.filter(item => item.type === 'tool_list' && item.id === id);
  }
  const { items = [], calls = [] } = run.turns[turn - 1] ?? {};
  if (kind === 'msg' || kind === 'rs') {
    const { include } = span.spec.request;
    const sealed = Array.isArray(include) && include.includes('reasoning.encrypted_content');
    const wanted = kind === 'msg' ? 'message' : 'reasoning';
    return saidIn(items, { sealed }).find(said => said.kind === wanted && said.place === place)?.items;
  }
  const callId = calls[place]?.callId ?? '';
  const call = items.find(item => item.type === 'tool_call' && item.callId === callId);
  if (call?.type !== 'tool_call') return undefined;
  if (kind === 'fc') return [call];
  if (kind === 'mcpr') {
    const { name = call.name, label = '' } = run.tools.of(callId) ?? {};
    return [{ id, type: 'approval_request', callId: id, name, arguments: call.arguments || '{}', label }];
  }
  const result = resultOf(run.state.context, callId);
  return result === undefined ? [call] : [call, { type: 'tool_result', callId, ...result }];
}
