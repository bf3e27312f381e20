import type { ServiceName } from '../../protocol/effect.ts';
import type { Item } from '../../protocol/item.ts';
import type { Owner, Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { JudgeOwner } from '../driver/find-live-attempt.ts';
import type { Host } from '../driver/host.ts';
import type { DriveWatcher } from '../driver/watch-drive.ts';
import type { Service } from '../services/service.ts';
import type { ChildRuns, RunHandle } from '../sub-agents/child-runs.ts';

/** What a run needs from its agent. */
export type RunOptions = {
  runId: string;
  store: Store;
  host: Host;
  /** The owner that this run's leases name. */
  owner: Owner;
  /** Whether an owner with an unexpired lease is known to be dead. */
  isDead(owner: Owner): boolean;
  judgeOwner: JudgeOwner;
  leaseMs: number;
  /** How long aborted tools may take to stop when the run is cancelled, in ms. */
  graceMs: number;
  durability: 'strict' | 'relaxed';
  services: Readonly<Record<ServiceName, Service>>;
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  /** The transcript of the chain of runs up to `continues`; empty for `null`. */
  loadInherited(continues: string | null): Promise<readonly Item[]>;
  /** A model's text as readers see it, after the agent's text filters. */
  showText(text: string): string;
  children: ChildRuns;
  /** Only in a sub-agent's run: attaches to the parent run, if this process has its agent. */
  openParent?(runId: string): Promise<RunHandle>;
  /** Who watches the drives of this run, as of when one begins. */
  watchers?(): readonly DriveWatcher[];
  /** Whether the parent waits for this run in this process. */
  isAwaited?(): boolean;
};
