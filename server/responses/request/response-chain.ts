import type { Item } from '../../../protocol/item.ts';
import type { FoundResponse } from '../response-library.ts';
import type { RunResponses, Span } from '../run-responses.ts';
import { readResponseId } from '../wire/wire-ids.ts';
import { inputOf } from './input-listing.ts';

/** The part of a run that belongs to a chain: its entries up to `upTo`. */
export type Reach = { run: RunResponses; upTo: number };

/** The most runs in a chain; earlier ones are not found. */
const LONGEST = 1_000;

/**
 * A response and everything it follows, nearest first: the earlier responses of its run, then the run that this run
 * continues or was forked from, or else the response whose items its run started with (`refersTo`). Runs are read only
 * when needed.
 */
export class ResponseChain {
  readonly head: FoundResponse;
  readonly #load: (runId: string) => Promise<RunResponses | undefined>;
  readonly #reaches = new Map<string, Reach>();
  /** The input items of its responses, by id. */
  readonly #inputs = new Map<string, Item>();
  #last: Reach | undefined;
  #isComplete = false;

  constructor(head: FoundResponse, load: (runId: string) => Promise<RunResponses | undefined>) {
    this.head = head;
    this.#load = load;
  }

  /** Whether a response belongs to the chain. */
  async has({ run, span }: FoundResponse): Promise<boolean> {
    const reach = await this.reachOf(run.runId);
    return reach !== undefined && isWithin(reach, span);
  }

  /** The part of a run that belongs to the chain; `undefined` if none does. */
  async reachOf(runId: string): Promise<Reach | undefined> {
    while (!this.#reaches.has(runId) && !this.#isComplete) await this.#extend();
    return this.#reaches.get(runId);
  }

  /** The input item with this id. */
  async inputNamed(id: string): Promise<Item | undefined> {
    while (!this.#inputs.has(id) && !this.#isComplete) await this.#extend();
    return this.#inputs.get(id);
  }

  /** Whether it follows a run of the other chain. */
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

  /** Adds the next earlier run. */
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
    const { spans, entries } = this.#last.run;
    const started = entries[0]?.event;
    if (started?.type !== 'run.started') return undefined;
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

/** Whether a response is within the reach, stored, and not deleted. */
export function isWithin({ upTo }: Reach, { to, deleted, spec }: Span): boolean {
  return !deleted && spec.request.store !== false && (to ?? Infinity) <= upTo;
}
