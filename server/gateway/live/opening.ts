import { pendingServices } from '../../../machines/snapshot.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { ServiceName } from '../../../protocol/effect.ts';

/** What an answer can begin with instead of a model call. */
const WORK: readonly ServiceName[] = ['toolBatch', 'compaction'];

/**
 * Whether an answer has begun for its client. Until then a failure is one of the whole request: a status, after which the
 * client may send the request again. It begins with work other than a model call, or when the client has waited so long that
 * its connection might be cut; in a stream also with the first event of the provider.
 */
export class Opening {
  readonly #opened = Promise.withResolvers<void>();
  readonly #streams: boolean;
  #isOpen = false;

  constructor({ streams }: { streams: boolean }) {
    this.#streams = streams;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  get opened(): Promise<void> {
    return this.#opened.promise;
  }

  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#opened.resolve();
  }

  /** Opens if that is how the answer begins. */
  openForWork(state: ChartState): void {
    if (pendingServices(state).some(({ service }) => WORK.includes(service))) this.open();
  }

  /** The provider has begun to answer. */
  readonly begin = (): void => {
    if (this.#streams) this.open();
  };
}
