import type { ChartState } from '../machines/step.ts';
import type { Item } from '../protocol/item.ts';
import type { Store } from '../protocol/store.ts';
import type { Host } from './host.ts';
import { makeImage } from './load-run.ts';

/** Entries behind the latest snapshot of a run that does not rest, before there is another. */
const FAR = 512;
/** The same of one that rests or has ended: so few are folded again as soon as a snapshot of them is read. */
const NEAR = 64;

type Fold = { state: ChartState; seq: number };

/** The cached folds of a run: spaced geometrically, so that all of them together stay linear in the journal. */
export class Snapshots {
  readonly #where: { store: Store; host: Host; runId: string };
  readonly #inherited: readonly Item[] | undefined;
  /** Of the latest one. */
  #seq: number;

  /** `inherited`: of a run that came from another store, what it continues. */
  constructor(
    where: { store: Store; host: Host; runId: string },
    { snapshotSeq, inherited }: { snapshotSeq: number; inherited?: readonly Item[] },
  ) {
    this.#where = where;
    this.#inherited = inherited;
    this.#seq = snapshotSeq;
  }

  /** Where the run rests or has ended, if one is due. */
  async saveAtRest({ state, seq }: Fold): Promise<void> {
    if (seq - this.#seq >= Math.max(NEAR, this.#seq / 2)) await this.#save({ state, seq });
  }

  /**
   * While the run is driven on and on too: the next driver folds a part of its journal, not all of it.
   * A cache that cannot be kept is no reason to stop.
   */
  saveOnTheWay({ state, seq }: Fold): void {
    if (seq - this.#seq < Math.max(FAR, this.#seq / 3)) return;
    this.#seq = seq;
    this.#save({ state, seq }).catch(() => {});
  }

  async #save({ state, seq }: Fold): Promise<void> {
    const { store, host, runId } = this.#where;
    host.reach?.('snapshot.before');
    await store.saveSnapshot(runId, { seq, state: makeImage(state, this.#inherited) });
    this.#seq = seq;
    host.reach?.('snapshot.after');
  }
}
