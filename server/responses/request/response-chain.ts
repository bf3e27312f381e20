import type { Item } from '../../../protocol/item.ts';
import type { FoundResponse } from '../response-library.ts';
import type { RunResponses, Span } from '../run-responses.ts';
import { readResponseId } from '../wire/wire-ids.ts';
import { inputOf } from './input-listing.ts';

/** How far a run counts for what follows a response: up to this entry. */
export type Reach = { run: RunResponses; upTo: number };

/** Runs. What stands further back is not found. */
const LONGEST = 1_000;

/**
 * A response and all it stands behind, the nearest first: the responses before it in its run, what its run
 * continues or forked from, and else the response whose items its run was begun with (`refersTo`).
 * Runs are read as far as they are needed.
 */
export class ResponseChain {
  readonly head: FoundResponse;
  readonly #load: (runId: string) => Promise<RunResponses | undefined>;
  readonly #reaches = new Map<string, Reach>();
  /** What its responses were asked with, by id. */
  readonly #inputs = new Map<string, Item>();
  #last: Reach | undefined;
  #isWhole = false;

  constructor(head: FoundResponse, load: (runId: string) => Promise<RunResponses | undefined>) {
    this.head = head;
    this.#load = load;
  }

  async has({ run, span }: FoundResponse): Promise<boolean> {
    const reach = await this.reachOf(run.runId);
    return reach !== undefined && isWithin(reach, span);
  }

  /** How much of a run counts here; `undefined` for nothing of it. */
  async reachOf(runId: string): Promise<Reach | undefined> {
    while (!this.#reaches.has(runId) && !this.#isWhole) await this.#extend();
    return this.#reaches.get(runId);
  }

  /** What one of its responses was asked with by this id. */
  async inputNamed(id: string): Promise<Item | undefined> {
    while (!this.#inputs.has(id) && !this.#isWhole) await this.#extend();
    return this.#inputs.get(id);
  }

  /** By one run further back. */
  async #extend(): Promise<void> {
    const reach = await this.#nextReach();
    if (reach === undefined || this.#reaches.has(reach.run.runId) || this.#reaches.size >= LONGEST) {
      this.#isWhole = true;
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

/** Whether a response that is stored, and was not deleted, is within the reach. */
export function isWithin({ upTo }: Reach, { to, deleted, spec }: Span): boolean {
  return !deleted && spec.request.store !== false && (to ?? Infinity) <= upTo;
}
