import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Creates a folder that is removed when this process ends. */
export function makeTemporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'agentchart-bench-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
