import { drivesOf } from '../../engine/driver/drives.ts';
import type { Host } from '../../engine/host/host.ts';
import type { Store } from '../../protocol/store.ts';
import { Durations, describeFamily } from './prometheus.ts';

const MOST_WORK = 1_000;

/** Counts runs without a driver, up to a limit: those that could be taken here, and those that are left to others. */
export type WorkCounter = {
  countWork(limit: number): Promise<number>;
  countLeft(limit: number): Promise<number>;
};

type WorkMetricsOptions = { store: Store; host: Host; slots?: number | undefined };

/** Shows how many processes are needed: the number of runs without a driver, and of those that this process drives. */
export class WorkMetrics {
  /** The store, whose appends are measured: the one that this process drives runs with. */
  readonly store: Store;
  readonly #options: WorkMetricsOptions;
  readonly #appends = new Durations();
  #counter: WorkCounter | undefined;

  constructor(options: WorkMetricsOptions) {
    const { store, host } = options;
    this.#options = options;
    this.store = measureAppends(store, host, ms => this.#appends.add({}, ms));
  }

  countWith(counter: WorkCounter): void {
    this.#counter = counter;
  }

  async describe(server: WorkCounter): Promise<string> {
    const { slots } = this.#options;
    const counter = this.#counter ?? server;
    const [work, left] = await Promise.all([counter.countWork(MOST_WORK), counter.countLeft(MOST_WORK)]);
    const { size, lostLeases } = drivesOf(this.store);
    const used = [{ state: 'used' }, size] as const;
    const lines = [
      describeFamily(
        'agentchart_runs_to_take',
        'gauge',
        `Runs that this process, or others like it, could take now, up to ${MOST_WORK}.`,
        [[{}, work]],
      ),
      describeFamily(
        'agentchart_runs_undrivable',
        'gauge',
        `Runs of these agents that have something to do, no driver, and another version or chart than processes like this one drive, up to ${MOST_WORK}.`,
        [[{}, left]],
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
}

function measureAppends(store: Store, host: Host, took: (ms: number) => void): Store {
  const append: Store['append'] = async (...given) => {
    const asked = host.monotonic();
    const result = await store.append(...given);
    took(host.monotonic() - asked);
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
