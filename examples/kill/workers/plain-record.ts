import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { JsonValue } from '../../../protocol/json.ts';

/**
 * What the plain loop has done, in a file: after every step its result is added, and a process that starts
 * takes from it what is there and does the rest. What a step did before it was recorded is not known.
 */
export class PlainRecord {
  readonly #file: string;
  readonly #results: JsonValue[];
  #at = 0;

  constructor(file: string) {
    this.#file = file;
    this.#results = readResults(file);
  }

  /** How many steps are on record. */
  get length(): number {
    return this.#results.length;
  }

  readonly step = async <Result>(act: () => Promise<Result>): Promise<Result> => {
    const at = this.#at++;
    if (at < this.#results.length) return this.#results[at] as Result;
    const result = await act();
    this.#results.push(result as JsonValue);
    this.#write();
    return result;
  };

  /** Whole or not at all. */
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
