import type { Context } from '../../machines/context.ts';
import type { Delta } from '../../protocol/effect.ts';
import { EngineError, isThrown } from '../../protocol/error.ts';
import type { ReportEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { PastCall } from '../../protocol/rule.ts';
import type { Store } from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import type { LateOutcome } from '../journal/evidence.ts';
import type { PlayCall } from '../journal/recorded-calls.ts';
import type { RunBlobs } from '../journal/run-blobs.ts';

type Unstamped<Event> = Event extends ReportEvent ? Omit<Event, 'at' | 'generation'> : never;

/** A report without its time and generation, which the scope adds. */
export type Report = Unstamped<ReportEvent>;

/** The interface of a service to its driver. */
export interface ServiceScope {
  readonly host: Host;
  /** When the chart stops the service, the run is cancelled, or this process stops driving it. */
  readonly stop: Readonly<Pick<Stop, 'isStopped' | 'signal'>>;
  /** Aborted when this process gives the run up, or ends it after its calls: those in progress may end, and no other begins. */
  readonly yielding: AbortSignal;
  /** When the timer is due, in ms since the epoch. */
  readonly until: number | undefined;
  /** Returns the current context, including everything reported so far. */
  context(): Context;
  /** Returns the transcript of the runs that this run continues, as it is now: one of them may have been redacted. */
  inherited(): Promise<readonly Item[]>;
  /** Returns the calls that were begun in those runs. */
  past(): Promise<readonly PastCall[]>;
  /** Returns false if the chart did not accept it. If the chart then stops the service, nothing of it is left to abort. */
  report(report: Report): boolean;
  /** Like `report`, but in one step with what else is reported in the same moment. Resolves to those that were not accepted. */
  reportSoon(report: Report): Promise<readonly Report[]>;
  /** Why the journal cannot hold a report, if it cannot. Absent without a journal. */
  faultIn?(report: Report): string | undefined;
  /** The barrier before external effects: resolves once all reports are durable. Rejects with `Stopped` if the service must end. */
  durable(): Promise<void>;
  /** Makes everything reported so far durable, and returns the seq of the last entry. Absent without a journal. */
  committed?(): Promise<number>;
  /** Whether reports become durable without `durable()` too: only then does a call run unrecorded. */
  readonly commitsInBackground: boolean;
  /** Attempts reported as started whose function was not called, by call id. Absent where a driver's reports can be forgotten. */
  readonly unbegun?: Map<string, number>;
  /** Throws `Stopped` unless this process still drives the run. Called directly before a tool. */
  assertDriving(): void;
  publish(delta: Delta): void;
  /** The store for large results; `null` without a store: the state then holds them in full. */
  readonly blobs: RunBlobs | null;
  /** Absent in an actor. */
  readonly store?: Store;
  /** Finds results for a fork that plays those of its original; absent without a store. */
  readonly play?: PlayCall;
  recordLate(outcome: LateOutcome): void;
  /** Describes, for people, an attempt of the call that may still be running; `null` if none can be. */
  findLiveAttempt(call: { callId: string; attempt: number }): Promise<string | null>;
  /** What the run of background work gave; `undefined` if it is gone. Without a store, no run can be read. */
  loadOutcome?(runId: string): Promise<FullOutcome | undefined>;
  /** Why nothing needs this child run any more; `null` if its parent does. Absent without a store. */
  findOrphan?(child: Context): Promise<string | null>;
}

/** What background work gave; its output is cut if it is large. */
type FullOutcome = { output: JsonValue; wholeOutput(): Promise<JsonValue> };

/** The longest reason of a doubt or a quarantine, in bytes of UTF-8. */
export const LONGEST_REASON_BYTES = 10_000;

/** Returns the connected tools, or reports that a person must sign in first and returns `null`. */
export async function connectOrAsk<Tools>(
  scope: ServiceScope,
  connectTools: () => Promise<Tools>,
): Promise<Tools | null> {
  try {
    return await connectTools();
  } catch (error) {
    if (reportSignIn(scope, error)) return null;
    throw error;
  }
}

/** Reports that a person must sign in, if that is the error; returns whether it is. */
function reportSignIn(scope: ServiceScope, error: unknown): boolean {
  if (!isThrown(error, EngineError) || error.code !== 'sign-in-needed') return false;
  const { server, url } = (error.details ?? {}) as { server?: unknown; url?: unknown };
  if (typeof server !== 'string') return false;
  const where = typeof url === 'string' ? { url } : {};
  return scope.report({ type: 'sign-in.requested', server, ...where });
}

/** The driver's request to a service to stop. */
export class Stop {
  readonly #abort = new AbortController();
  isStopped = false;

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  abort(reason: Stopped): void {
    this.isStopped = true;
    this.#abort.abort(reason);
  }

  /** Stops a service that reported its last: nothing is left to abort, and an abort costs as much as a step of the chart. */
  end(): void {
    this.isStopped = true;
  }
}

/** Carries out one effect and reports its outcome. Returns without a report when its signal is aborted. */
export type Service = (scope: ServiceScope) => Promise<void>;

/** Thrown to end a service whose work is no longer needed. Never reported. */
export class Stopped extends Error {
  override readonly name: string = 'Stopped';
}

/** The reason of `yielding`: how long the calls in progress may take, in ms. */
export class Yielding extends Stopped {
  override readonly name = 'Yielding';
  readonly graceMs: number;

  constructor(graceMs: number) {
    super('This process gives the run up.');
    this.graceMs = graceMs;
  }
}

/** Thrown to end a service because its run was cancelled. `afterCalls`: calls that have started finish first. */
export class Cancelled extends Stopped {
  override readonly name = 'Cancelled';
  readonly afterCalls: boolean;

  constructor(afterCalls = false) {
    super('The run was cancelled.');
    this.afterCalls = afterCalls;
  }
}
