import * as z from 'zod/mini';
import type { Delta } from '../../protocol/effect.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { lazySchema } from '../../protocol/schemas/lazy-schema.ts';
import type { DeltaStore, Store } from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import {
  endsText,
  isSamePart,
  isText,
  type RunEvents,
  restOf,
  sizeOf,
  type TextDelta,
} from './run-events.ts';

/** The time between two writes, in ms: at most five a second. */
const WRITE_MS = 200;
/** How often the store is asked whether the run has followers, in ms. */
const ASK_MS = 500;
/** In characters of JSON. Readers get a longer text from the journal when its turn is complete. */
const MOST_CHARS = 1024 * 1024;

type SharedTextOptions = {
  deltas: DeltaStore;
  runId: string;
  host: Host;
  events: RunEvents;
  /** The last durable entry, and how often the run had been redacted. */
  durable(): { seq: number; redactions: number };
};

/**
 * Shares the text of the current turn with readers in other processes, while this process drives the run.
 *
 * X1 Writes nothing while the run has no followers. Errors of the store are ignored: only a preview is lost.
 * X2 Each write stores the full text so far, at most every 200 ms. It is deleted when its turn is in the journal.
 * X3 The stored text records the seq of the last entry before it, so that readers do not mistake it for the text of a
 *    later turn.
 */
export class SharedText {
  readonly #options: SharedTextOptions;
  readonly #unsubscribe: () => void;
  #cancelTimer: (() => void) | null = null;
  #saving: Promise<void> = Promise.resolve();
  #isSaving = false;
  #nextAt = 0;
  #isStored = false;
  #isClosed = false;

  constructor(options: SharedTextOptions) {
    this.#options = options;
    this.#unsubscribe = options.events.subscribe({
      receive: happening => this.#receive(happening, isText(happening)),
      glance: event => this.#receive(event, false),
      wake: () => {},
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#unsubscribe();
    this.#cancelTimer?.();
    await this.#saving;
    await this.#clear();
  }

  /** Text whose write has begun is cleared after it. */
  #receive(happening: RunEvent | Delta, isNew: boolean): void {
    if (endsText(happening)) {
      if (this.#isStored) this.#saving = this.#saving.then(() => this.#clear());
    } else if (isNew || this.#isStored) this.#schedule();
  }

  #schedule(): void {
    if (this.#isClosed || this.#cancelTimer !== null || this.#isSaving) return;
    const { host } = this.#options;
    const save = () => {
      this.#cancelTimer = null;
      this.#saving = this.#saving.then(() => this.#save());
    };
    this.#cancelTimer = host.setTimer(Math.max(0, this.#nextAt - host.now()), save, { keepAlive: false });
  }

  async #save(): Promise<void> {
    const { deltas, runId, host, events, durable } = this.#options;
    const { number, parts } = events.partialText;
    if (this.#isClosed || parts.length === 0) return;
    const { seq, redactions } = durable();
    const json = JSON.stringify(parts);
    if (json.length > MOST_CHARS) return;
    this.#isSaving = true;
    let isFollowed = false;
    try {
      isFollowed = await deltas.save(runId, { seq, redactions, json }, host.now());
      this.#isStored ||= isFollowed;
    } catch {
      // This write is lost. A later write may succeed.
    }
    this.#isSaving = false;
    this.#nextAt = host.now() + (isFollowed ? WRITE_MS : ASK_MS);
    const now = events.partialText;
    if (now.number !== number) await this.#clear();
    else if (!isFollowed || sizeOfAll(now.parts) !== sizeOfAll(parts)) this.#schedule();
  }

  async #clear(): Promise<void> {
    if (!this.#isStored) return;
    this.#isStored = false;
    await this.#options.deltas.clear(this.#options.runId).catch(() => {});
  }
}

function sizeOfAll(parts: readonly TextDelta[]): number {
  return parts.reduce((sum, part) => sum + sizeOf(part), 0);
}

/** How long a reader's request to share the text is valid, in ms. The reader renews it after half of this time. */
const FOLLOW_MS = 10_000;

const partsSchema = lazySchema(() => {
  const place = { turn: z.int(), attempt: z.int(), text: z.string() };
  return z.array(
    z.discriminatedUnion('type', [
      z.object({
        type: z.enum(['text.delta', 'reasoning.delta']),
        ...place,
        refusals: z.exactOptional(z.int()),
        sealed: z.exactOptional(z.array(z.int())),
      }),
      z.object({
        type: z.literal('call.delta'),
        ...place,
        index: z.int(),
        callId: z.exactOptional(z.string()),
        name: z.exactOptional(z.string()),
      }),
      z.object({
        type: z.literal('answer.delta'),
        callId: z.string(),
        source: z.string(),
        at: z.int(),
        text: z.string(),
      }),
    ]),
  );
});

type FollowedTextOptions = {
  store: Pick<Store, 'deltas'>;
  runId: string;
  host: Host;
  events: RunEvents;
  /** Whether another process drives the run, according to the entries that this process has read. */
  isFollowing(): boolean;
};

/**
 * Returns what publishes the new text that the driver in another process shares (`SharedText`), as deltas.
 * Errors of the store are ignored.
 *
 * Y1 Readers get the same text as the driver's own readers, in fewer and larger pieces. The end of a turn's text may be
 *    missing; the journal then has it.
 * Y2 Text from before the last entry that ended a text is not published.
 */
export function followText({ store, runId, host, events, isFollowing }: FollowedTextOptions) {
  return async (): Promise<void> => {
    const { deltas } = store;
    if (deltas === undefined || !isFollowing()) return;
    const now = host.now();
    const stored = await deltas.follow(runId, { now, until: now + FOLLOW_MS }).catch(() => undefined);
    if (stored === undefined || !isFollowing()) return;
    const { since, parts } = events.partialText;
    if (stored.seq < since) return;
    for (const delta of findMissing(parts, readParts(stored.json))) events.publishDelta(delta);
  };
}

function readParts(json: string): TextDelta[] {
  try {
    return partsSchema.safeParse(JSON.parse(json)).data ?? [];
  } catch {
    return [];
  }
}

/** Returns the deltas of `parts` after `known`; an empty list if `known` is not a prefix of `parts`. */
function findMissing(known: readonly TextDelta[], parts: readonly TextDelta[]): TextDelta[] {
  const missing: TextDelta[] = [];
  for (const [index, part] of parts.entries()) {
    const before = known[index];
    if (before === undefined) missing.push(part);
    else if (!isSamePart(before, part) || !part.text.startsWith(before.text)) return [];
    else missing.push(...restOf(part, sizeOf(before)));
  }
  return parts.length < known.length ? [] : missing;
}
