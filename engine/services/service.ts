import type { Context } from '../../machines/context.ts';
import type { Delta } from '../../protocol/effect.ts';
import type { ReportEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import type { Host } from '../driver/host.ts';
import type { BoundOutput, RunBlobs } from '../journal/run-blobs.ts';

/** What an attempt gave after its run had moved on. */
export type LateOutcome = { callId: string; attempt: number; isError: boolean } & BoundOutput;

type Unstamped<Event> = Event extends ReportEvent ? Omit<Event, 'at' | 'generation'> : never;

/** A report without its time and generation: the scope adds them. */
export type Report = Unstamped<ReportEvent>;

/** What a service is given by whichever host runs it. */
export interface ServiceScope {
  readonly host: Host;
  /** Aborted when the chart stops the service, and when the run is cancelled or given up. */
  readonly signal: AbortSignal;
  /** When a timer is due, ms since the epoch. */
  readonly until: number | undefined;
  /** The current context: what has been reported is in it. */
  context(): Context;
  /** The transcript of the runs this one continues. */
  inherited(): readonly Item[];
  /** Tells the chart what happened; false when the chart did not take it. */
  report(report: Report): boolean;
  /**
   * The barrier: settles when everything reported so far is durable. Awaited before the outside is
   * touched, but for a call that may run unrecorded. Rejects with `Stopped` when the service has to end instead.
   */
  durable(): Promise<void>;
  /** Throws `Stopped` unless this process still drives the run. Called right before a tool is. */
  assertDriving(): void;
  publish(delta: Delta): void;
  /** Where large results are kept; `null` in a host that has no store: they are in the state, whole. */
  readonly blobs: RunBlobs | null;
  /** Keeps the outcome of a call's attempt that the chart does not wait for any more. */
  recordLate(outcome: LateOutcome): void;
  /** An attempt of the call, of those made so far, that may still act, for people; `null` if none can. */
  findLiveAttempt(call: { callId: string; attempt: number }): Promise<string | null>;
}

/** A service does one piece of work and reports; it ends quietly when its signal is aborted. */
export type Service = (scope: ServiceScope) => Promise<void>;

/** Ends a service whose work is not wanted any more. Never reported. */
export class Stopped extends Error {
  override readonly name: string = 'Stopped';
}

/** Ends a service because somebody cancelled its run. */
export class Cancelled extends Stopped {
  override readonly name = 'Cancelled';
}
