import type { Store } from '../../../protocol/store.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { watchStore } from './watched-store.ts';

const NEVER = new Promise<never>(() => {});

class ProcessEnded extends Error {}

/** What a process did: its result, or `null` if it died; the fault points that it reached, and the time at its end. */
export type ProcessOutcome<Result> = { result: Result | null; points: number; now: number };

/** A process that dies at its `deathAt`-th fault point: nothing of it goes on. Its clock begins at `now`. */
export class SimulatedProcess {
  readonly host: ManualHost;
  #points = 0;
  #isOver = false;
  readonly #death = Promise.withResolvers<null>();

  constructor(now: number, deathAt: number) {
    const reach = () => {
      if (this.#isOver) throw new ProcessEnded();
      this.#points += 1;
      if (this.#points < deathAt) return;
      this.#isOver = true;
      this.#death.resolve(null);
      throw new ProcessEnded();
    };
    this.host = new ManualHost({ now, name: `${now}_`, reach });
  }

  /** Await it before and after each act on the world outside. */
  readonly unlessOver = (): Promise<never> | undefined => (this.#isOver ? NEVER : undefined);

  connect(store: Store): Store {
    return watchStore(store, { before: this.unlessOver });
  }

  async run<Result>(work: () => Promise<Result>): Promise<ProcessOutcome<Result>> {
    const done = work().catch(async error => {
      if (this.#isOver) return await NEVER;
      throw error;
    });
    const result = await this.host.settle(Promise.race([done, this.#death.promise]));
    return { result, points: this.#points, now: this.host.now() };
  }
}
