// agent/listening: listeners and webhooks of an agent, which get its notices from the store's feed.

import type { DriveWatcher } from '../../engine/events/watch-drive.ts';
import { type Host, warn } from '../../engine/host/host.ts';
import { isOwnerDead, makeOwner } from '../../engine/host/owner.ts';
import { FeedFollower, type FeedReader } from '../../engine/listening/feed-follower.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { RunEvent } from '../../protocol/event.ts';
import type { FeedEntry, RunRecord, Store } from '../../protocol/store.ts';
/** A journal entry for listeners. */
export type JournaledEvent = RunEvent & { runId: string; seq: number };

/** The callback of `agent.on`. `run` is the run's record, which may already include later events. */
export type AgentListener = (event: JournaledEvent, run: RunRecord) => unknown;

/** The context of a delivery. `signal` is aborted when it must stop. */
export type DeliveryContext = { store: Store; host: Host; signal: AbortSignal };

/**
 * A listener whose cursor is stored under `name`: it continues at the cursor after a restart, and only one process at a
 * time delivers. `deliver` is called with the next event after its promise has resolved. `webhook` creates one.
 */
export type LastingListener = {
  readonly name: string;
  deliver(event: JournaledEvent, run: RunRecord, context: DeliveryContext): Promise<void>;
};

const LISTENERS = new WeakMap<object, AgentListeners>();

/** Moves the listeners of an agent to a copy of it with another store or model. */
export function moveListeners(from: object, to: object): void {
  const listeners = LISTENERS.get(to);
  if (listeners !== undefined) LISTENERS.get(from)?.moveTo(listeners);
}

/** The listeners of an agent: they follow the store, and read right after a commit of this process. */
export class AgentListeners {
  readonly #agent: { name: string; store: Store };
  readonly #host: Host;
  readonly #concerns: (agent: string) => boolean;
  readonly #followers = new Map<FeedFollower, AgentListener | LastingListener>();

  /** `concerns` returns whether the listeners want the runs of the agent with this name. */
  constructor(agent: { name: string; store: Store }, host: Host, concerns: (agent: string) => boolean) {
    this.#agent = agent;
    this.#host = host;
    this.#concerns = concerns;
    LISTENERS.set(agent, this);
  }

  /** Adds a listener; returns a function that removes it. Throws `agent-invalid` for a store without a feed. */
  add(listener: AgentListener | LastingListener): () => void {
    const { name, store } = this.#agent;
    const host = this.#host;
    if (store.feed === undefined)
      throw new EngineError('agent-invalid', `The store of agent "${name}" has no feed, which on() needs.`);
    const owner = makeOwner(host.newId('listener'));
    const follower = new FeedFollower(
      { store, host, owner, feed: store.feed, isDead: isOwnerDead },
      typeof listener === 'function' ? this.#plain(listener) : this.#lasting(listener),
    );
    this.#followers.set(follower, listener);
    return () => {
      this.#followers.delete(follower);
      follower.stop();
    };
  }

  /** The watcher of this process's drives; present while there are listeners. */
  watchers(): readonly DriveWatcher[] {
    return this.#followers.size === 0 ? [] : [this.#watcher];
  }

  /** Moves all listeners to another agent. If its store has no feed, drops them with a warning. */
  moveTo(other: AgentListeners): void {
    const listeners = [...this.#followers.values()];
    this.close();
    try {
      for (const listener of listeners) other.add(listener);
    } catch (error) {
      warn(`Listeners are not called: ${messageOf(error)}`);
    }
  }

  close(): void {
    for (const follower of this.#followers.keys()) follower.stop();
    this.#followers.clear();
  }

  readonly #watcher: DriveWatcher = {
    begin: () => ({
      receive: happening => {
        if ('seq' in happening) for (const follower of this.#followers.keys()) follower.wake();
      },
      end: async () => {
        await Promise.all([...this.#followers.keys()].map(follower => follower.caughtUp()));
      },
    }),
  };

  #plain(listener: AgentListener): FeedReader {
    return { ...this.#reader(), take: (entry, run) => listener(toEvent(entry), run) };
  }

  #lasting({ name, deliver }: LastingListener): FeedReader {
    const { store } = this.#agent;
    return {
      ...this.#reader(),
      name: `${this.#agent.name}:${name}`,
      take: (entry, run, signal) => deliver(toEvent(entry), run, { store, host: this.#host, signal }),
    };
  }

  #reader(): Pick<FeedReader, 'concerns' | 'report'> {
    const report = (line: string) => warn(`Agent "${this.#agent.name}": ${line}`);
    return { concerns: this.#concerns, report };
  }
}

function toEvent({ runId, seq, event }: FeedEntry): JournaledEvent {
  return { ...event, runId, seq };
}
