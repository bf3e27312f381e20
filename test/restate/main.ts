/**
 * `npm run test:restate`: the Restate host on a real server, with workers and a server that are killed. Arguments choose
 * scenarios by name. Exits with 1 if one fails. `RESTATE_MODULES=…/node_modules` uses a server that is installed there.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Lab } from './lab.ts';
import { SCENARIOS } from './scenarios.ts';

const chosen = process.argv.slice(2);
const unknown = chosen.filter(name => !(name in SCENARIOS));
if (unknown.length > 0)
  throw new Error(
    `There is no scenario ${unknown.join(', ')}. There are: ${Object.keys(SCENARIOS).join(', ')}.`,
  );

const folder = mkdtempSync(join(tmpdir(), 'agentchart-restate-'));
const lab = await Lab.open(folder);
try {
  for (const [name, play] of Object.entries(SCENARIOS)) {
    if (chosen.length > 0 && !chosen.includes(name)) continue;
    const start = performance.now();
    try {
      const found = await play(lab);
      console.log(`ok      ${name} (${Math.round(performance.now() - start)} ms): ${found}`);
    } catch (error) {
      process.exitCode = 1;
      console.log(`FAILED  ${name}: ${error instanceof Error ? error.stack : String(error)}`);
    }
  }
} finally {
  await lab.close();
  rmSync(folder, { recursive: true, force: true });
}
