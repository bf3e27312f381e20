import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RECORDED, SURFACES } from './surfaces/all-surfaces.ts';

/**
 * Rewrites the golden streams: `npx node test/golden/write-surfaces.ts`, or with the names of surfaces. `git diff` then shows
 * what readers will get otherwise.
 */

const chosen = process.argv.slice(2);
if (chosen.length === 0) rmSync(RECORDED, { recursive: true, force: true });
for (const [surface, scenarios] of Object.entries(SURFACES)) {
  if (chosen.length > 0 && !chosen.includes(surface)) continue;
  const folder = join(RECORDED, surface);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  let bytes = 0;
  for (const [name, record] of Object.entries(scenarios)) {
    const text = await record();
    bytes += Buffer.byteLength(text);
    writeFileSync(join(folder, `${name}.txt`), text);
  }
  process.stderr.write(`${surface}: ${Object.keys(scenarios).length} streams, ${bytes} bytes\n`);
}
// A dead process of a scenario waits forever.
process.exit();
