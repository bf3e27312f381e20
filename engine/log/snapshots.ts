import { hasEnded } from '../../machines/status.ts';
import type { Item } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { Host } from '../host/host.ts';
import { makeImage, noteFold, noteSnapshot, SHORT_JOURNAL, type StoredFold } from '../journal/load-run.ts';

/** The fewest entries between two snapshots of a run that does not rest. */
const ACTIVE_INTERVAL = 512;

type SnapshotOptions = { store: Store; host: Host; runId: string };

/**
 * Saves snapshots of a run, spaced geometrically: their total size stays linear in the journal's length. The last is of
 * its end, or of a few entries before it, so that another process continues a long run without folding it.
 */
export class Snapshots {
  readonly #options: SnapshotOptions;
  readonly #inherited: readonly Item[] | undefined;
  #seq: number;

  /** `inherited`: only for a run that came from another store, the transcript of the runs that it continues. */
  constructor(
    options: SnapshotOptions,
    { snapshotSeq, inherited }: { snapshotSeq: number; inherited?: readonly Item[] },
  ) {
    this.#options = options;
    this.#inherited = inherited;
    this.#seq = snapshotSeq;
  }

  /** Notes the fold for this process. Saves it if a snapshot is due, and at the end of a run for those that continue it. */
  async saveAtRest(fold: StoredFold): Promise<void> {
    const inherited = this.#inherited;
    const loaded = { ...fold, snapshotSeq: this.#seq, ...omitUndefined({ inherited }) };
    noteFold(this.#options.store, this.#options.runId, loaded);
    const added = fold.seq - this.#seq;
    const most = hasEnded(fold.state) ? SHORT_JOURNAL : Math.max(SHORT_JOURNAL, this.#seq / 2);
    if (added >= most) await this.#save(fold);
  }

  /** Saves a snapshot while the run is driven, if one is due. Errors are ignored: a snapshot is only a cache. */
  saveInBackground(fold: StoredFold): void {
    const { seq } = fold;
    if (seq - this.#seq < Math.max(ACTIVE_INTERVAL, this.#seq / 3)) return;
    this.#seq = seq;
    this.#save(fold).catch(() => {});
  }

  async #save({ state, seq, redactions }: StoredFold): Promise<void> {
    const { store, host, runId } = this.#options;
    host.reach?.('snapshot.before');
    await store.saveSnapshot(runId, { seq, redactions, state: makeImage(state, this.#inherited) });
    this.#seq = seq;
    noteSnapshot(store, runId, { seq, redactions });
    host.reach?.('snapshot.after');
  }
}
