import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { JsonValue } from '../../../protocol/json.ts';

/**
 * The file in which the plain loop records the result of each step after it ran. A new process takes the recorded
 * results and runs the remaining steps. A step that was killed before it was recorded leaves no trace.
 */
export class PlainRecord {
  readonly #file: string;
  readonly #results: JsonValue[];
  #at = 0;

  constructor(file: string) {
    this.#file = file;
    this.#results = readResults(file);
  }

  /** The number of recorded steps. */
  get length(): number {
    return this.#results.length;
  }

  /** Returns the recorded result of the next step, or runs it and records its result. */
  readonly step = async <Result>(act: () => Promise<Result>): Promise<Result> => {
    const at = this.#at++;
    if (at < this.#results.length) return this.#results[at] as Result;
    const result = await act();
    this.#results.push(result as JsonValue);
    this.#write();
    return result;
  };

  /** Replaces the file atomically. */
  #write(): void {
    writeFileSync(`${this.#file}.new`, JSON.stringify(this.#results));
    renameSync(`${this.#file}.new`, this.#file);
  }
}

function readResults(file: string): JsonValue[] {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return [];
  }
}
