import type { Item } from '../../protocol/item.ts';
import type { Store } from '../../protocol/store.ts';
import type { Chart } from '../driver/chart.ts';
import type { Host } from '../driver/host.ts';
import { SHORT_JOURNAL } from './load-run.ts';

/** The fewest entries between two snapshots of a run that does not rest. */
const ACTIVE_INTERVAL = 512;

type SnapshotOptions<State> = { store: Store; host: Host; runId: string; chart: Chart<State> };

type Fold<State> = { state: State; seq: number };

/** Saves snapshots of a run, spaced geometrically: their total size stays linear in the journal's length. */
export class Snapshots<State> {
  readonly #options: SnapshotOptions<State>;
  readonly #inherited: readonly Item[] | undefined;
  /** The seq of the latest snapshot. */
  #seq: number;

  /** `inherited`: only for a run that came from another store, the transcript of the runs that it continues. */
  constructor(
    options: SnapshotOptions<State>,
    { snapshotSeq, inherited }: { snapshotSeq: number; inherited?: readonly Item[] },
  ) {
    this.#options = options;
    this.#inherited = inherited;
    this.#seq = snapshotSeq;
  }

  /** Saves a snapshot of a run that rests or has ended, if one is due. */
  async saveAtRest({ state, seq }: Fold<State>): Promise<void> {
    if (seq - this.#seq >= Math.max(SHORT_JOURNAL, this.#seq / 2)) await this.#save({ state, seq });
  }

  /**
   * Saves a snapshot in the background while the run is driven, if one is due. Errors are ignored: a snapshot is
   * only a cache.
   */
  saveInBackground({ state, seq }: Fold<State>): void {
    if (seq - this.#seq < Math.max(ACTIVE_INTERVAL, this.#seq / 3)) return;
    this.#seq = seq;
    this.#save({ state, seq }).catch(() => {});
  }

  async #save({ state, seq }: Fold<State>): Promise<void> {
    const { store, host, runId, chart } = this.#options;
    host.reach?.('snapshot.before');
    await store.saveSnapshot(runId, { seq, state: chart.image(state, this.#inherited) });
    this.#seq = seq;
    host.reach?.('snapshot.after');
  }
}
