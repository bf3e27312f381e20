import type { Item } from '../../protocol/item.ts';
import type { CommandOptions } from '../../protocol/run-command.ts';
import type { Moment } from '../host/host.ts';
import type { MakeCommand } from '../log/command.ts';
import type { AppendOutcome, SubmitResult } from '../log/refusal.ts';
import type { Settled } from '../log/settled.ts';

/**
 * The interface through which a run's handle (`Run`) has the run driven. `Supervisor` drives the run in this process.
 * Another implementation may leave the driving to an external system, and only append inputs and follow the journal.
 */
export interface RunSupervisor {
  /** The driver, while this process drives the run. */
  readonly driver: {
    cancel(options: CommandOptions & { reason?: string }): Promise<AppendOutcome>;
  } | null;
  /** Whether more events are expected, according to the entries that this process has read. */
  readonly activity: 'running' | 'at-rest' | 'ended';
  /** The error that stopped driving in this process; `null` without one. */
  readonly failure: { error: unknown } | null;
  /** The transcript of the runs that this run continues; `undefined` until it is loaded. */
  readonly inherited: readonly Item[] | undefined;
  /** Reads the entries of other processes, unless this process drives the run. */
  refresh(): Promise<void>;
  /** Appends inputs, and has the run driven if they let it continue. */
  put(makes: readonly MakeCommand[]): Promise<SubmitResult>;
  /** Waits until the run rests or has ended. Rejects if driving fails. */
  settled(): Promise<Settled>;
  /** Has the run driven now, even if it rests. Resolves once it settles or another process drives it. */
  drive(): Promise<void>;
  /** Has a newly created run driven. `epoch` and `leasedAt` belong to the claim that created it. */
  begin(epoch: number, leasedAt: Moment, inherited: readonly Item[]): void;
  /** Has the run driven now, even if it rests. Returns false if another process drives it. */
  tryToDrive(): Promise<boolean>;
  /**
   * Releases the run within `graceMs` if this process drives it, so that another process can continue. Does nothing if
   * an external system drives it.
   */
  yield(graceMs: number): Promise<void>;
  /** Has the run driven at its deadline. Called when a handle begins to hold the run. */
  wakeAtExpiry(): void;
}
