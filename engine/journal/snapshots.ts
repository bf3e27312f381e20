import type { Item } from '../../protocol/item.ts';
import type { Store } from '../../protocol/store.ts';
import type { Chart } from '../driver/chart.ts';
import type { Host } from '../driver/host.ts';
import { SHORT_JOURNAL } from './load-run.ts';

/** Entries behind the latest snapshot of a run that does not rest, before there is another. */
const FAR = 512;

type Stored<State> = { store: Store; host: Host; runId: string; chart: Chart<State> };

type Fold<State> = { state: State; seq: number };

/** The cached folds of a run: spaced geometrically, so that all of them together stay linear in the journal. */
export class Snapshots<State> {
  readonly #where: Stored<State>;
  readonly #inherited: readonly Item[] | undefined;
  /** Of the latest one. */
  #seq: number;

  /** `inherited`: of a run that came from another store, what it continues. */
  constructor(
    where: Stored<State>,
    { snapshotSeq, inherited }: { snapshotSeq: number; inherited?: readonly Item[] },
  ) {
    this.#where = where;
    this.#inherited = inherited;
    this.#seq = snapshotSeq;
  }

  /** Where the run rests or has ended, if one is due. */
  async saveAtRest({ state, seq }: Fold<State>): Promise<void> {
    if (seq - this.#seq >= Math.max(SHORT_JOURNAL, this.#seq / 2)) await this.#save({ state, seq });
  }

  /**
   * While the run is driven on and on too: the next driver folds a part of its journal, not all of it.
   * A cache that cannot be kept is no reason to stop.
   */
  saveOnTheWay({ state, seq }: Fold<State>): void {
    if (seq - this.#seq < Math.max(FAR, this.#seq / 3)) return;
    this.#seq = seq;
    this.#save({ state, seq }).catch(() => {});
  }

  async #save({ state, seq }: Fold<State>): Promise<void> {
    const { store, host, runId, chart } = this.#where;
    host.reach?.('snapshot.before');
    await store.saveSnapshot(runId, { seq, state: chart.image(state, this.#inherited) });
    this.#seq = seq;
    host.reach?.('snapshot.after');
  }
}
