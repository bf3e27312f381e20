import type { Context } from '../../machines/context.ts';
import type { ServiceName } from '../../protocol/effect.ts';
import type { Item } from '../../protocol/item.ts';
import type { PastCall } from '../../protocol/rule.ts';
import type { CommandOptions } from '../../protocol/run-command.ts';
import type { Owner, Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { Rule } from '../../rules/rule.ts';
import type { TextFilter } from '../../text/text-filter.ts';
import type { RunEvents } from '../events/run-events.ts';
import type { DriveWatcher } from '../events/watch-drive.ts';
import type { Host, HostMoment } from '../host/host.ts';
import type { CheckOwner } from '../journal/find-live-attempt.ts';
import type { Continued } from '../journal/load-history.ts';
import type { LoadedRun } from '../journal/load-run.ts';
import type { MakeCommand } from '../log/command.ts';
import type { AppendOutcome, SubmitResult } from '../log/refusal.ts';
import type { RunLog } from '../log/run-log.ts';
import type { Settled } from '../log/settled.ts';
import type { OutputContract } from '../services/definition.ts';
import type { MissingModel } from '../services/prepare-request.ts';
import type { Service } from '../services/service.ts';
import type { Children } from '../sub-agents/children.ts';
import type { RunHandle, SubAgentRuns } from '../sub-agents/sub-agent-runs.ts';

export type RunOptions = {
  runId: string;
  store: Store;
  host: Host;
  owner: Owner;
  /** Whether an owner with an unexpired lease is known to be dead. */
  isDead(owner: Owner): boolean;
  checkOwner: CheckOwner;
  leaseMs: number;
  /** How long aborted tools may take to stop when the run is cancelled, and calls to end when it is yielded, in ms. */
  graceMs: number;
  durability: 'strict' | 'relaxed';
  services: Readonly<Record<ServiceName, Service>>;
  /** Why this process has no model for the run's next turn; `undefined` if it has one. */
  explainMissingModel(context: Context): MissingModel | undefined;
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  /** Of an agent with an output schema. */
  output?: OutputContract;
  /** The transcript of the chain of runs up to `continues`; empty for `null`. */
  loadInherited(continued: Continued): Promise<readonly Item[]>;
  rules: readonly Rule[];
  /** The history of that chain. */
  loadPast(continued: Continued): Promise<readonly PastCall[]>;
  textFilters: readonly (() => TextFilter)[];
  /** A model's text as readers see it, after the text filters. */
  showText(text: string): string;
  subAgents: SubAgentRuns;
  /** Only in a sub-agent's run: attaches to the parent run, if this process has its agent. */
  openParent?(runId: string): Promise<RunHandle>;
  /** Observers, read when a drive begins. */
  watchers?(): readonly DriveWatcher[];
  /** Default: a `Supervisor`, which drives the run in this process. */
  makeSupervisor?: MakeSupervisor;
  isAwaited?(): boolean;
};

export type RunParts = {
  options: RunOptions;
  log: RunLog;
  events: RunEvents;
  children: Children;
  loaded: LoadedRun;
  /** The transcript of the runs that this run continues, cached; `undefined` until it is loaded. */
  inherited: readonly Item[] | undefined;
};

export type MakeSupervisor = (parts: RunParts) => RunSupervisor;

/** How a run's handle (`Run`) has the run driven: by `Supervisor` in this process, or by an external system. */
export interface RunSupervisor {
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
  put(makes: readonly MakeCommand[]): Promise<SubmitResult>;
  /** Waits until the run rests or has ended. Rejects if driving fails. */
  settled(): Promise<Settled>;
  /** Has the run driven now, even if it rests. Resolves once it settles or another process drives it. */
  drive(): Promise<void>;
  /** Has a newly created run driven. `epoch` and `leasedAt` belong to the claim that created it. */
  begin(epoch: number, leasedAt: HostMoment, inherited: readonly Item[]): void;
  /** Has the run driven now, even if it rests. Returns false if another process drives it. */
  tryToDrive(): Promise<boolean>;
  /** Gives the run up within `graceMs`, if this process drives it. Does nothing if an external system drives it. */
  yield(graceMs: number): Promise<void>;
  /** Has the run driven at its deadline. Called when a handle begins to hold the run. */
  wakeAtExpiry(): void;
}
