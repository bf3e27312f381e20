import { drivesOf } from '../../engine/driver/drives.ts';
import type { Host } from '../../engine/driver/host.ts';
import { isOwnerDead } from '../../engine/driver/owner.ts';
import { isDriven, type Store } from '../../protocol/store.ts';
import { Durations, describeFamily } from './prometheus.ts';

/** The most runs that are counted as work. */
const MOST_WORK = 1_000;

type WorkMetricsOptions = { store: Store; clock: Host; slots?: number | undefined };

/** What tells how many processes are needed: the runs that nobody drives, and what this process drives. */
export class WorkMetrics {
  /** The store, whose appends are measured: the one that this process drives runs with. */
  readonly store: Store;
  readonly #options: WorkMetricsOptions;
  readonly #appends = new Durations();

  constructor(options: WorkMetricsOptions) {
    const { store, clock } = options;
    this.#options = options;
    this.store = measureAppends(store, clock, ms => this.#appends.add({}, ms));
  }

  /** The text of the metrics. */
  async describe(): Promise<string> {
    const { slots } = this.#options;
    const { size, lostLeases } = drivesOf(this.store);
    const used = [{ state: 'used' }, size] as const;
    const lines = [
      describeFamily(
        'agentchart_runs_to_take',
        'gauge',
        `Runs that have something to do and that no process drives, up to ${MOST_WORK}.`,
        [[{}, await this.#countWork()]],
      ),
      describeFamily(
        'agentchart_slots',
        'gauge',
        'Runs that this process drives, and that it could drive besides.',
        slots === undefined ? [used] : [used, [{ state: 'free' }, Math.max(0, slots - size)]],
      ),
      describeFamily(
        'agentchart_lease_losses_total',
        'counter',
        'Runs that another process took over from this one.',
        [[{}, lostLeases]],
      ),
      this.#appends.describe('agentchart_append_duration_seconds', 'Durations of appends to the store.'),
    ];
    return `${lines.flat().join('\n')}\n`;
  }

  async #countWork(): Promise<number> {
    const { store, clock } = this.#options;
    const { runs } = await store.list({ status: 'running', limit: MOST_WORK });
    return runs.filter(record => !isDriven(record, clock.now(), isOwnerDead)).length;
  }
}

/** The store, with the duration of each append reported in ms. */
function measureAppends(store: Store, clock: Host, took: (ms: number) => void): Store {
  const append: Store['append'] = async (...given) => {
    const asked = clock.monotonic();
    const result = await store.append(...given);
    took(clock.monotonic() - asked);
    return result;
  };
  return new Proxy(store, {
    get(target, name) {
      if (name === 'append') return append;
      const member = Reflect.get(target, name, target);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
}
