/** A map whose values have sizes: it keeps those that were used last, up to a sum of sizes. */
export class BoundedMap<Key, Value> {
  readonly #most: number;
  readonly #entries = new Map<Key, { value: Value; size: number }>();
  #size = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Counts as a use. */
  get(key: Key): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  /** Does not count as a use. */
  peek(key: Key): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Keeps nothing that is larger than the map. */
  set(key: Key, value: Value, size: number): void {
    this.delete(key);
    this.#entries.set(key, { value, size });
    this.#size += size;
    for (const oldest of this.#entries.keys()) {
      if (this.#size <= this.#most) return;
      this.delete(oldest);
    }
  }

  delete(key: Key): void {
    this.#size -= this.#entries.get(key)?.size ?? 0;
    this.#entries.delete(key);
  }

  /** From the oldest use to the latest. */
  keys(): IterableIterator<Key> {
    return this.#entries.keys();
  }
}
