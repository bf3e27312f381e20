import type { JsonValue } from '../../protocol/json.ts';
import type { RunCommand } from '../../protocol/run-command.ts';
import type { OpenCall, OpenQuestion, OpenReview, UnsettledCall } from '../../protocol/run-view.ts';
import type { RunStatus } from '../../protocol/store.ts';

/** Options of `remoteRun` and `useRun`. */
export type RemoteRunOptions = {
  /** Sent as a bearer token. */
  token?: string | undefined;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
};

const NAMES: { readonly [Name in keyof RemoteRunOptions]-?: true } = { token: true, fetch: true };

/** Throws a `TypeError` for an unknown option. A page does not load the names and codes of the engine for it. */
export function refuseOtherOptions(of: string, options: RemoteRunOptions): void {
  const unknown = Object.keys(options).find(name => !Object.hasOwn(NAMES, name));
  if (unknown !== undefined)
    throw new TypeError(
      `unknown option "${unknown}" of ${of}; expected one of ${Object.keys(NAMES).join(', ')}.`,
    );
}

/** A snapshot of a run for a page. Its identity changes only when a member changes. */
export type RunSnapshot<RunContext = unknown> = {
  runId: string;
  /** The path of the chart's state, such as `resting.awaitingApproval`; empty until the run is known. */
  state: string;
  /** `connecting` until the run is known. */
  status: RunStatus | 'connecting';
  /** The run's data: for a remote run its view from the runs API, for a run in this process the chart's context. */
  context: RunContext | null;
  /** The text of the running or last turn so far; once the run has finished, its answer. */
  text: string;
  /** In a waiting run, the calls that need a decision, an answer, a result or a resolution; else its calls without a result. */
  calls: readonly (OpenCall | OpenQuestion | UnsettledCall)[];
  /** The answers that wait for a review: the run's, and those of its sub-agents. `text` may already show that of the run. */
  reviews: readonly OpenReview[];
  /** Why the run failed, or why it cannot be read. A lost connection is not an error: the run reconnects. */
  error?: { code: string; message: string } | undefined;
};

/**
 * The answer to a command. A refusal has a code, a message and, if known, who decided first. The promise of a refused
 * command does not reject.
 */
export type CommandAnswer =
  | { accepted: true }
  | { accepted: false; code: string; message: string; by?: string | string[] };

/** An open call or review, or its id. Pass it itself to bind the decision to what was shown. */
export type CallTarget =
  | string
  | (Pick<OpenCall | OpenQuestion | OpenReview, 'callId' | 'runId' | 'digest'> & { kind?: string });

type By = { by?: string };

/** The commands of a run. They work like the methods of `Run` with the same names. */
export type RunCommands = {
  approve(
    call: CallTarget,
    options?: By & { input?: unknown; answer?: unknown; sticky?: boolean },
  ): Promise<CommandAnswer>;
  reject(call: CallTarget, options?: By & { reason?: string; sticky?: boolean }): Promise<CommandAnswer>;
  answer(
    call: CallTarget,
    options: By & ({ output: unknown; isError?: boolean } | { answers: Readonly<Record<string, unknown>> }),
  ): Promise<CommandAnswer>;
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

/** A decision or result names the digest of the call that it was given for. */
export function commandsOf(submit: (command: RunCommand) => Promise<CommandAnswer>): RunCommands {
  return {
    approve: (call, options) => submit({ type: 'approve', ...refer(call), ...options }),
    // With `to`, those who may only answer questions may decline them.
    reject: (call, options) => {
      const isQuestion = typeof call !== 'string' && call.kind === 'question';
      return submit({ type: 'reject', ...refer(call), ...options, ...(isQuestion && { to: 'question' }) });
    },
    answer: (call, options) => {
      if ('answers' in options) return submit({ type: 'answer', ...refer(call), ...options });
      const { isError, ...given } = options;
      return submit({ type: 'answer', ...refer(call), ...given, ...(isError === true && { isError }) });
    },
    resolve: (call, resolution) => {
      const { digest: _, ...target } = refer(call);
      return submit({ type: 'resolve', ...target, ...resolution });
    },
    send: (message, options) => submit({ type: 'send', message, ...options }),
    pause: options => submit({ type: 'pause', ...options }),
    unpause: options => submit({ type: 'unpause', ...options }),
    step: options => submit({ type: 'step', ...options }),
    cancel: options => submit({ type: 'cancel', ...options }),
  };
}

/** What names a call. An open call has more members, such as its input. */
function refer(call: CallTarget): { callId: string; runId?: string; digest?: string } {
  if (typeof call === 'string') return { callId: call };
  const { callId, runId, digest } = call;
  return { callId, runId, digest };
}

/** Ends a subscription. React calls it as a function, XState as the method `unsubscribe`. */
type Unsubscribe = (() => void) & { unsubscribe(): void };

type Listener<Snapshot> = ((snapshot: Snapshot) => void) | { next?(snapshot: Snapshot): void };

/**
 * A run that a page can observe: for `useSelector` of `@xstate/react`, `useSyncExternalStore`, and the stores of other
 * frameworks. The run is connected while it has subscribers.
 */
export type ObservedRun<RunContext = unknown> = RunCommands & {
  getSnapshot(): RunSnapshot<RunContext>;
  subscribe(listener: Listener<RunSnapshot<RunContext>>): Unsubscribe;
};

/** What is shown of a run's story; other events are ignored. */
export type StoryTold = { type: string; text?: string };

/** Text that follows these events is another one. */
const BEGINNINGS: ReadonlySet<string> = new Set([
  'turn.opened',
  'turn.closed',
  'answer.discarded',
  'answer.taken',
]);
const TAKEN_BACK: ReadonlySet<string> = new Set(['turn.discarded', 'answer.discarded', 'answer.blocked']);

/**
 * Holds a snapshot and its subscribers, and stays connected while there are subscribers.
 *
 * S1 A change to equal values keeps the snapshot's identity.
 * S2 The connection closes shortly after the last subscriber leaves, because React may unsubscribe and subscribe again
 *    immediately.
 */
export class SnapshotStore<RunContext> {
  #snapshot: RunSnapshot<RunContext>;
  readonly #listeners = new Set<(snapshot: RunSnapshot<RunContext>) => void>();
  readonly #connect: () => () => void;
  #disconnect: (() => void) | null = null;
  #isNewText = true;

  /** `connect` starts to update the store and returns a function that stops it. */
  constructor(runId: string, connect: () => () => void) {
    this.#snapshot = {
      runId,
      state: '',
      status: 'connecting',
      context: null,
      text: '',
      calls: [],
      reviews: [],
    };
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

  change(changed: Partial<RunSnapshot<RunContext>>): void {
    const before = this.#snapshot;
    const names = Object.keys(changed) as (keyof RunSnapshot)[];
    if (names.every(name => isSame(before[name], changed[name]))) return;
    this.#snapshot = { ...before, ...changed };
    for (const notify of this.#listeners) notify(this.#snapshot);
  }

  /** Takes an event of the run's story: the text is that of the last attempt that has one. */
  tell({ type, text = '' }: StoryTold): void {
    if (BEGINNINGS.has(type)) this.#isNewText = true;
    if (TAKEN_BACK.has(type)) this.change({ text: '' });
    if (type === 'answer.changed' || type === 'answer.taken') this.change({ text });
    if (type !== 'text' && type !== 'answer.text') return;
    this.change({ text: this.#isNewText ? text : this.#snapshot.text + text });
    this.#isNewText = false;
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
