import * as z from 'zod/mini';
import { lazySchema } from '../../protocol/schemas/lazy-schema.ts';
import type { Store } from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import { isSamePart, type RunEvents, restOf, sizeOf, type TextDelta } from './run-events.ts';

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
 * Publishes the text that the driver in another process shares (`SharedText`), as deltas.
 *
 * Y1 Readers get the same text as the driver's own readers, in fewer and larger pieces. The end of a turn's text may be
 *    missing; the journal then has it.
 * Y2 Text from before the last entry that ended a text is not published.
 */
export class FollowedText {
  readonly #options: FollowedTextOptions;

  constructor(options: FollowedTextOptions) {
    this.#options = options;
  }

  /** Publishes new text. Errors of the store are ignored. */
  async read(): Promise<void> {
    const { store, runId, host, isFollowing } = this.#options;
    const { deltas } = store;
    if (deltas === undefined || !isFollowing()) return;
    const now = host.now();
    const stored = await deltas.follow(runId, { now, until: now + FOLLOW_MS }).catch(() => undefined);
    if (stored === undefined || !isFollowing()) return;
    if (stored.seq >= this.#options.events.partialText.since) this.#publish(stored.json);
  }

  #publish(json: string): void {
    const { events } = this.#options;
    const parts = readParts(json);
    const known = events.partialText.parts;
    for (const delta of findMissing(known, parts)) events.publishDelta(delta);
  }
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
