import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Room } from './rooms.ts';

/** Imports that remain once types are stripped. */
const IMPORT =
  /(?:^|\n)(?:import|export)\s+(?!type\b)(?:[^'";]*\sfrom\s+)?'(\.[^']+)'|import\('(\.[^']+)'\)/g;

/** Finds the tests that load a file. */
export class ImportGraph {
  readonly #importers = new Map<string, string[]>();

  /** Reads the sources in the current folder. */
  constructor() {
    for (const file of globSync('**/*.ts', { exclude: ['**/node_modules', 'dist'] })) {
      for (const [, one, other] of readFileSync(file, 'utf8').matchAll(IMPORT)) {
        const imported = join(dirname(file), one ?? other ?? '');
        this.#importers.set(imported, [...(this.#importers.get(imported) ?? []), file]);
      }
    }
  }

  /** Returns the files that load this one, the nearest first. */
  whatLoads(file: string): string[] {
    const reached = new Set([file]);
    for (const next of reached) for (const importer of this.#importers.get(next) ?? []) reached.add(importer);
    return [...reached];
  }
}

/** Whether a test file mirrors the room. */
export function mirrors({ tests }: Room, file: string): boolean {
  return tests.some(folder => file.startsWith(`test/${folder}/`));
}

/** Whether a test file is in the same top-level folder as those that mirror the room. */
export function isBeside({ tests }: Room, file: string): boolean {
  return tests.some(folder => file.startsWith(`test/${folder.split('/')[0]}/`));
}
