import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

const folders: string[] = [];

afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** The path of a database in a new folder, which is removed after the tests of the file. */
export function makeFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'agentchart-store-'));
  folders.push(folder);
  return join(folder, 'runs.db');
}
