import { isRedaction } from '../../protocol/redaction.ts';

/** Notices whether a function reads what was redacted: then its answer says nothing. */
export class RedactionWatch {
  #wasRead = false;

  /** Whether something redacted was read since this was asked before. */
  take(): boolean {
    const wasRead = this.#wasRead;
    this.#wasRead = false;
    return wasRead;
  }

  /** Reads like the value. One that is redacted as a whole is an object without members. */
  over<Value>(value: Value): Value {
    return this.#watch(value) as Value;
  }

  #watch(value: unknown): unknown {
    if (isRedaction(value))
      return new Proxy({}, { get: () => void this.#note(), has: this.#note, ownKeys: this.#noteKeys });
    if (typeof value !== 'object' || value === null) return value;
    return new Proxy(value, {
      get: (target, name, receiver) => {
        const found: unknown = Reflect.get(target, name, receiver);
        if (!isRedaction(found)) return this.#watch(found);
        this.#wasRead = true;
        return found;
      },
    });
  }

  #note = () => {
    this.#wasRead = true;
    return false;
  };

  #noteKeys = () => {
    this.#wasRead = true;
    return [];
  };
}
