import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { stateKeyOf } from '../../../fronts/mcp/state-key.ts';
import { makeTemporaryFolder } from '../../support/temporary-folders.ts';

it('a database file has one key, which only its owner reads, and a damaged one is refused', () => {
  const file = join(makeTemporaryFolder('state-key-'), 'runs.db');
  const key = stateKeyOf(file, () => {});
  expect(key).toHaveLength(32);
  expect(stateKeyOf(file, () => {})).toEqual(key);
  expect(statSync(`${file}.mcp-key`).mode & 0o777).toBe(0o600);
  writeFileSync(`${file}.mcp-key`, 'short');
  expect(() => stateKeyOf(file, () => {})).toThrow('is not a key');
});

it('a database on a server needs a secret, and says so', () => {
  const log: string[] = [];
  const key = () => stateKeyOf('postgres://localhost/runs', line => log.push(line));
  expect(key()).not.toEqual(key());
  expect(log[0]).toContain('AGENTCHART_MCP_KEY is not set');
  vi.stubEnv('AGENTCHART_MCP_KEY', 's'.repeat(32));
  expect(key()).toEqual(key());
  vi.stubEnv('AGENTCHART_MCP_KEY', 'short');
  expect(key).toThrow('at least 32 characters');
});
