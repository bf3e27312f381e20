import type { Item } from '../../protocol/item.ts';
import type { AppendOutcome } from '../journal/run-log.ts';
import type { MakeCommand } from '../run/command.ts';
import type { SubmitResult } from '../run/explain-refusal.ts';
import type { CommandOptions } from '../run/run-command.ts';
import type { Settled } from '../run/settled.ts';
import type { Moment } from './host.ts';

/**
 * Who drives a run, as the run's handle (`Run`) uses it. `Supervisor` drives the run in this process. A host may leave
 * the driving to another system and only append inputs and follow the journal.
 */
export interface RunHost {
  /** The driver, while this process drives the run. */
  readonly driver: {
    cancel(options: CommandOptions & { reason?: string }): Promise<AppendOutcome>;
  } | null;
  /** Whether more events are expected, as far as this process has read the journal. */
  readonly standing: 'running' | 'at-rest' | 'ended';
  /** The error that stopped driving in this process; `null` without one. */
  readonly failure: { error: unknown } | null;
  /** The transcript of the runs that this run continues; `undefined` until it is loaded. */
  readonly inherited: readonly Item[] | undefined;
  /** Reads the entries of other processes, unless a driver in this process does. */
  refresh(): Promise<void>;
  /** Appends inputs, and has the run driven if they give it something to do. */
  put(makes: readonly MakeCommand[]): Promise<SubmitResult>;
  /** Waits until the run rests or has ended. Rejects if driving fails. */
  settled(): Promise<Settled>;
  /** Has the run driven now, even if it rests. Resolves once it settles or another process drives it. */
  drive(): Promise<void>;
  /** Has a run driven that was just created. `epoch` and `leasedAt` are of the claim that created it. */
  begin(epoch: number, leasedAt: Moment, inherited: readonly Item[]): void;
  /** Has the run driven now, even if it rests. Returns false if another process drives it. */
  tryToDrive(): Promise<boolean>;
  /**
   * Gives the run up if this process drives it, within `graceMs`, so that another process goes on. Nothing happens if
   * another system drives it.
   */
  yield(graceMs: number): Promise<void>;
  /** Called once a handle holds the run: has the run driven when its deadline comes. */
  wakeAtExpiry(): void;
}
