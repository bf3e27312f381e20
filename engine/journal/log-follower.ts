import type { Effect } from '../../protocol/effect.ts';

/** Who drives a run under the lease of this process. */
export type LogFollower = {
  /** An input was folded, and not committed yet. */
  onInput(effects: readonly Effect[]): void;
  /** What these follow from was dropped. */
  onDropped(effects: readonly Effect[]): void;
  /** Others' events came in between: the state may be another one than effects were drawn from. */
  onRefolded(): void;
  /** Another process drives the run now. */
  onSuperseded(): void;
  /** The store failed: nothing more can be made durable under this lease. */
  onFailed(error: unknown): void;
};
