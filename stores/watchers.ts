/** The callbacks of `watch` and `watchWork`. They are called after the store's call, never within it. */
export class Watchers {
  readonly #ofRuns = new Map<string, Set<() => void>>();
  readonly #ofWork = new Set<() => void>();

  get isEmpty(): boolean {
    return this.#ofRuns.size === 0 && this.#ofWork.size === 0;
  }

  get topics(): string[] {
    return [...this.#ofRuns.keys()];
  }

  /** Adds a callback for a run, under a name that the store gives it; the returned function removes it. */
  watch(topic: string, onChange: () => void): () => void {
    const callbacks = this.#ofRuns.get(topic) ?? new Set();
    const own = () => onChange();
    this.#ofRuns.set(topic, callbacks.add(own));
    return () => {
      callbacks.delete(own);
      if (callbacks.size === 0 && this.#ofRuns.get(topic) === callbacks) this.#ofRuns.delete(topic);
    };
  }

  watchWork(onWork: () => void): () => void {
    const own = () => onWork();
    this.#ofWork.add(own);
    return () => this.#ofWork.delete(own);
  }

  notifyRun(topic: string): void {
    callSoon(this.#ofRuns.get(topic));
  }

  notifyWork(): void {
    callSoon(this.#ofWork);
  }

  notifyAll(): void {
    for (const topic of this.#ofRuns.keys()) this.notifyRun(topic);
    this.notifyWork();
  }

  clear(): void {
    for (const callbacks of [...this.#ofRuns.values(), this.#ofWork]) callbacks.clear();
    this.#ofRuns.clear();
  }
}

function callSoon(callbacks: ReadonlySet<() => void> = new Set()): void {
  for (const callback of callbacks) queueMicrotask(() => callbacks.has(callback) && callback());
}
