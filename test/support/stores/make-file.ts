import { join } from 'node:path';
import { makeTemporaryFolder } from '../temporary-folders.ts';

/** The path of a database in a new folder, which is removed after the tests of the file. */
export function makeFile(): string {
  return join(makeTemporaryFolder('store'), 'runs.db');
}
