import type { JsonValue } from '../../protocol/json.ts';
import type { OpenCall } from '../../protocol/run-view.ts';
import type { RunStatus } from '../../protocol/store.ts';

/** A run as a page sees it. The same object as long as nothing changed. */
export type RunSnapshot<RunContext = unknown> = {
  runId: string;
  /** The path of the chart's state, such as `resting.awaitingApproval`; empty until the run is known. */
  state: string;
  /** `connecting` until the run is known. */
  status: RunStatus | 'connecting';
  /** The run's data: of a remote run its view by the runs API, of a run in this process the chart's context. */
  context: RunContext | null;
  /** The text of the running turn so far, or of the last one; once the run has finished, its answer. */
  text: string;
  /** The calls without a result. Those of a waiting run need a decision, a result or a resolution. */
  calls: readonly OpenCall[];
  /** Why the run failed, or why it cannot be read. A lost connection is no error: it is opened again. */
  error?: { code: string; message: string } | undefined;
};

/** The answer to a command: a refusal says why, and who decided first. Refused commands do not reject. */
export type CommandAnswer =
  | { accepted: true }
  | { accepted: false; code: string; message: string; by?: string };

/** An open call, or the id of one. With the call itself, a decision is bound to the input that was shown. */
export type CallTarget = string | Pick<OpenCall, 'callId' | 'runId' | 'digest'>;

type By = { by?: string };

/** The commands of a run, with the meaning of the methods of `Run`. */
export type RunCommands = {
  approve(call: CallTarget, options?: By & { input?: unknown; sticky?: boolean }): Promise<CommandAnswer>;
  reject(call: CallTarget, options?: By & { reason?: string; sticky?: boolean }): Promise<CommandAnswer>;
  answer(call: CallTarget, options: By & { output: unknown; isError?: boolean }): Promise<CommandAnswer>;
  resolve(
    call: CallTarget,
    resolution: By &
      ({ retry: true; force?: boolean } | { happened: true; output: JsonValue } | { failed: string }),
  ): Promise<CommandAnswer>;
  send(message: string, options?: By): Promise<CommandAnswer>;
  pause(options?: By): Promise<CommandAnswer>;
  unpause(options?: By): Promise<CommandAnswer>;
  step(options?: By): Promise<CommandAnswer>;
  cancel(options?: By & { reason?: string }): Promise<CommandAnswer>;
};

/** Ends a subscription, called or as a method: React wants the one, XState the other. */
type Unsubscribe = (() => void) & { unsubscribe(): void };

type Listener<Snapshot> = ((snapshot: Snapshot) => void) | { next?(snapshot: Snapshot): void };

/**
 * A run that a page can watch: for `useSelector` of `@xstate/react`, `useSyncExternalStore`, and the stores of other
 * frameworks. It is connected while it has subscribers.
 */
export type ObservedRun<RunContext = unknown> = RunCommands & {
  getSnapshot(): RunSnapshot<RunContext>;
  subscribe(listener: Listener<RunSnapshot<RunContext>>): Unsubscribe;
};

/**
 * Keeps a snapshot and its subscribers, and connects while there are some.
 *
 * S1 A change that changes nothing keeps the snapshot's identity.
 * S2 The connection ends a moment after the last subscriber left: React leaves and comes back at once.
 */
export class SnapshotStore<RunContext> {
  #snapshot: RunSnapshot<RunContext>;
  readonly #listeners = new Set<(snapshot: RunSnapshot<RunContext>) => void>();
  readonly #connect: () => () => void;
  #disconnect: (() => void) | null = null;

  /** `connect` begins to feed the store, and returns what ends that. */
  constructor(runId: string, connect: () => () => void) {
    this.#snapshot = { runId, state: '', status: 'connecting', context: null, text: '', calls: [] };
    this.#connect = connect;
  }

  readonly getSnapshot = (): RunSnapshot<RunContext> => this.#snapshot;

  readonly subscribe = (listener: Listener<RunSnapshot<RunContext>>): Unsubscribe => {
    const own = (now: RunSnapshot<RunContext>) =>
      typeof listener === 'function' ? listener(now) : listener.next?.(now);
    this.#listeners.add(own);
    this.#disconnect ??= this.#connect();
    const unsubscribe = () => {
      this.#listeners.delete(own);
      queueMicrotask(() => this.#leave());
    };
    return Object.assign(unsubscribe, { unsubscribe });
  };

  /** Changes members of the snapshot. */
  change(changed: Partial<RunSnapshot<RunContext>>): void {
    const before = this.#snapshot;
    const names = Object.keys(changed) as (keyof RunSnapshot)[];
    if (names.every(name => isSame(before[name], changed[name]))) return;
    this.#snapshot = { ...before, ...changed };
    for (const notify of this.#listeners) notify(this.#snapshot);
  }

  #leave(): void {
    if (this.#listeners.size > 0) return;
    this.#disconnect?.();
    this.#disconnect = null;
  }
}

function isSame(before: unknown, after: unknown): boolean {
  return before === after || (typeof after === 'object' && JSON.stringify(before) === JSON.stringify(after));
}
