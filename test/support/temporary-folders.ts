import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folders: string[] = [];

/** Creates a folder whose name starts with `agentchart-` and `prefix`. It is removed at the end of the test file. */
export function makeTemporaryFolder(prefix: string): string {
  const folder = mkdtempSync(join(tmpdir(), `agentchart-${prefix}-`));
  folders.push(folder);
  return folder;
}

/** Removes the folders made so far. A setup file calls it: a module that files of a worker share has one `afterAll`. */
export function removeTemporaryFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
