import type { RunRecord, Store } from '../../protocol/store.ts';
import type { Agent } from '../../tools/agent/agent.ts';
import type { Message } from './events.ts';
import { RunFollower } from './follow-run.ts';
import { ThreadMessages } from './thread-messages.ts';

/** The size limit of the cached messages, in characters of their JSON. */
const MOST_CHARS = 32_000_000;

/** `seqs`: the last seqs of the run and of its sub-agents' runs when they were read. */
type Past = { seqs: ReadonlyMap<string, number>; messages: readonly Message[]; chars: number };

/**
 * Caches the messages of ended runs, including their sub-agents' runs. The journal of an ended run is read once, and
 * again only if it has a new entry, as after a redaction. The least recently used runs are evicted.
 */
export class PastRuns {
  readonly #known = new Map<string, Past>();
  #chars = 0;

  /** Adds the messages of a run to those of its thread. */
  async addTo(
    messages: ThreadMessages,
    agent: Agent,
    record: Pick<RunRecord, 'runId' | 'seq'>,
  ): Promise<void> {
    const past = (await this.#find(agent.store, record)) ?? (await this.#read(agent, record));
    for (const message of past.messages) messages.add(structuredClone(message));
  }

  async #find(store: Store, { runId, seq }: Pick<RunRecord, 'runId' | 'seq'>): Promise<Past | undefined> {
    const past = this.#known.get(runId);
    if (past === undefined) return undefined;
    this.#forget(runId);
    for (const [id, last] of past.seqs)
      if ((id === runId ? seq : (await store.get(id))?.seq) !== last) return undefined;
    this.#keep(runId, past);
    return past;
  }

  async #read(agent: Agent, { runId }: Pick<RunRecord, 'runId'>): Promise<Past> {
    const messages = new ThreadMessages();
    const follower = new RunFollower({ agent, runId, messages, seen: new Map() });
    await follower.catchUp();
    const { list } = messages;
    const past = { seqs: follower.seqs, messages: list, chars: JSON.stringify(list).length };
    this.#forget(runId);
    this.#keep(runId, past);
    return past;
  }

  #keep(runId: string, past: Past): void {
    this.#known.set(runId, past);
    this.#chars += past.chars;
    for (const oldest of this.#known.keys()) {
      if (this.#chars <= MOST_CHARS) return;
      this.#forget(oldest);
    }
  }

  #forget(runId: string): void {
    this.#chars -= this.#known.get(runId)?.chars ?? 0;
    this.#known.delete(runId);
  }
}
