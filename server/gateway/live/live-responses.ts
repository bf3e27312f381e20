import { ApiError } from '../../error-envelope.ts';
import type { LiveResponse, MakeWriter, ResponseFeed } from './response-feed.ts';

/** A feed in whatever protocol. */
export type AnyFeed = ResponseFeed<unknown, unknown>;

/** The most settled responses whose events are kept, and the most events of them. */
const MOST_SETTLED = 64;
const MOST_SETTLED_EVENTS = 50_000;

/**
 * The feeds of responses that began in this process: those in progress, and the last settled ones, so that a client can
 * continue where its connection broke.
 */
export class LiveResponses {
  readonly #feeds = new Map<string, AnyFeed>();
  /** The settled ones, oldest first. */
  readonly #settled = new Set<AnyFeed>();
  /** Feeds of journals, by what is read, as long as they have readers. */
  readonly #replays = new Map<string, Promise<AnyFeed>>();
  readonly #closing = new AbortController();

  /** Aborted by `close`. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Adds a feed. Throws `shutting-down`. */
  add(feed: AnyFeed, settled: Promise<unknown>): void {
    this.assertOpen();
    this.#feeds.set(feed.id, feed);
    const settle = () => {
      this.#settled.add(feed);
      this.#trim();
    };
    // A run that this process cannot drive further is read from its journal.
    settled.then(settle, () => this.#drop(feed));
  }

  /**
   * A reader of a journal. Those that read the same at the same time share a feed. `open` opens it; it has to call its
   * argument when no reader should be added to the feed any more.
   */
  async replay<Wire, Whole>(
    key: string,
    write: MakeWriter<Wire, Whole>,
    open: (onClosed: () => void) => Promise<ResponseFeed<Wire, Whole>>,
  ): Promise<LiveResponse<Wire, Whole>> {
    for (;;) {
      const replaying = this.#replays.get(key) ?? this.#beginReplay(key, open);
      const feed = await replaying;
      if (!feed.isWrittenBy(write)) return (await open(() => {})).attach();
      // Its other readers may have left meanwhile.
      if (this.#replays.get(key) === replaying) return feed.attach();
    }
  }

  #beginReplay(key: string, open: (onClosed: () => void) => Promise<AnyFeed>): Promise<AnyFeed> {
    const forget = () => {
      if (this.#replays.get(key) === replaying) this.#replays.delete(key);
    };
    const replaying = open(forget);
    this.#replays.set(key, replaying);
    replaying.catch(forget);
    return replaying;
  }

  /** The feed of a response; `undefined` if it is not kept. */
  find(responseId: string): AnyFeed | undefined {
    return this.#feeds.get(responseId);
  }

  /** Removes the feed of a response. The readers that it has keep it. */
  remove(responseId: string): void {
    const feed = this.#feeds.get(responseId);
    if (feed !== undefined) this.#drop(feed);
  }

  /** Ends the readers of all feeds, those of others too that listen to `closing`. No feed can be added afterwards. */
  close(): void {
    this.#closing.abort();
  }

  /** Throws `shutting-down` after `close`. */
  assertOpen(): void {
    if (this.closing.aborted)
      throw new ApiError('shutting-down', 'The server is shutting down. Retry later.');
  }

  #drop(feed: AnyFeed): void {
    if (this.#feeds.get(feed.id) === feed) this.#feeds.delete(feed.id);
    this.#settled.delete(feed);
    feed.release();
  }

  #trim(): void {
    let events = 0;
    for (const { size } of this.#settled) events += size;
    for (const feed of this.#settled) {
      if (this.#settled.size <= MOST_SETTLED && events <= MOST_SETTLED_EVENTS) return;
      events -= feed.size;
      this.#drop(feed);
    }
  }
}
