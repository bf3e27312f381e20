import type { ServiceName } from '../../protocol/effect.ts';
import type { Item } from '../../protocol/item.ts';
import type { Owner, Store } from '../../protocol/store.ts';
import type { Tool } from '../../protocol/tool.ts';
import type { JudgeOwner } from '../driver/find-live-attempt.ts';
import type { Host } from '../driver/host.ts';
import type { Service } from '../services/service.ts';
import type { ChildRuns, RunHandle } from '../sub-agents/child-runs.ts';

/** What a run needs of the agent it belongs to. */
export type RunOptions = {
  runId: string;
  store: Store;
  host: Host;
  owner: Owner;
  isDead(owner: Owner): boolean;
  judgeOwner: JudgeOwner;
  leaseMs: number;
  /** How long aborted tools may take to settle on cancel, in ms. */
  graceMs: number;
  durability: 'strict' | 'relaxed';
  services: Readonly<Record<ServiceName, Service>>;
  connectTools(): Promise<ReadonlyMap<string, Tool>>;
  /** The transcript of the runs that `continues` leads to. */
  loadInherited(continues: string | null): Promise<readonly Item[]>;
  showText(text: string): string;
  children: ChildRuns;
  /** Of a sub-agent's run: attaches to the run that made it, in case its agent is here. */
  openParent?(runId: string): Promise<RunHandle>;
  /** Whether somebody waits for this run's end right here. */
  isAwaited?(): boolean;
};
