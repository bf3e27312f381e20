import type { ModelCall, WatchedDrive } from '../../engine/events/watch-drive.ts';
import { readPages } from '../../engine/journal/read-journal.ts';
import type { RunHappening } from '../../engine/run/run.ts';
import type { JournalEntry } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { SpanFold, type TracePlace } from './fold-spans.ts';
import { placeOfTurn } from './ids.ts';
import type { RunSpan } from './run-span.ts';

type LiveDriveOptions = {
  runId: string;
  /** The epoch of the claim under which this process drives; `null` if it ended the run while no process drove it. */
  epoch: number | null;
  store: Store;
  place: Promise<TracePlace>;
  content: boolean;
  emit(span: RunSpan): void;
};

/**
 * Emits the spans of a run while this process drives it: each once its last entry is durable.
 *
 * L1 A span is emitted by the process that drives when it ends. Spans that inputs ended while no process drove, and those
 *    that the death of the previous process cut short, are emitted by the next driver, or by the process that ended the
 *    run without driving it. The previous driver emitted everything up to the last report before that.
 * L2 Entries are folded once, in order; missed entries are read from the store.
 */
export class LiveDrive implements WatchedDrive {
  readonly #options: LiveDriveOptions;
  readonly #fold: Promise<SpanFold>;
  readonly #instructions = new Map<string, string>();
  #received: JournalEntry[] = [];
  #seq = 0;
  #isOurs = false;
  #before: RunSpan[] = [];
  #work: Promise<void> = Promise.resolve();

  constructor(options: LiveDriveOptions) {
    this.#options = options;
    this.#fold = options.place.then(
      place => new SpanFold(place, { content: options.content, instructions: this.#instructions }),
    );
    this.#pump();
  }

  /** Remembers the instructions of a model call for its span, if spans have content. */
  beginModelCall({
    instructions,
    ...call
  }: Omit<ModelCall, 'runId'> & { instructions?: string | undefined }): void {
    if (this.#options.content && instructions !== undefined)
      this.#instructions.set(placeOfTurn(call), instructions);
  }

  receive(happening: RunHappening): void {
    if (!('seq' in happening)) return;
    const { seq, ...event } = happening;
    this.#received.push({ seq, event });
    this.#pump();
  }

  /** Resolves once the spans of everything received have been emitted. */
  async end(): Promise<void> {
    this.#pump();
    await this.#work;
    if (this.#options.epoch === null) this.#emit(this.#before.splice(0));
  }

  #pump(): void {
    this.#work = this.#work.then(() => this.#takeReceived()).catch(() => {});
  }

  async #takeReceived(): Promise<void> {
    const fold = await this.#fold;
    const received = this.#received;
    this.#received = [];
    const first = received[0]?.seq;
    if (this.#seq === 0 || (first !== undefined && first > this.#seq + 1)) await this.#catchUp(fold);
    for (const entry of received) this.#take(fold, entry);
  }

  async #catchUp(fold: SpanFold): Promise<void> {
    const { store, runId } = this.#options;
    for await (const page of readPages(store, runId, this.#seq))
      for (const entry of page) this.#take(fold, entry);
  }

  #take(fold: SpanFold, entry: JournalEntry): void {
    if (entry.seq !== this.#seq + 1) return;
    this.#seq = entry.seq;
    const spans = fold.take(entry);
    if (this.#isOurs) return this.#emit(spans);
    this.#before.push(...spans);
    const { event } = entry;
    if ('generation' in event) this.#before = [];
    if (event.type !== 'run.claimed' || event.epoch !== this.#options.epoch) return;
    this.#isOurs = true;
    this.#emit(this.#before);
    this.#before = [];
  }

  #emit(spans: readonly RunSpan[]): void {
    for (const span of spans) this.#options.emit(span);
  }
}
