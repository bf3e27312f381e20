import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findEdgeJournals } from './edge-journals.ts';
import { listScenes, recordScene } from './engine-journals.ts';
import { describeFormat } from './format.ts';
import { formatGolden, type GoldenJournal, MADE, makeGolden } from './golden-journal.ts';

/**
 * Regenerates the golden journals: `node test/golden/write-golden.ts`. `git diff` then shows the
 * changes.
 */

const ROOT = fileURLToPath(new URL('.', import.meta.url));

function write(folder: string, journals: ReadonlyMap<string, GoldenJournal>): void {
  const path = join(ROOT, folder);
  rmSync(path, { recursive: true, force: true });
  for (const [name, journal] of journals) {
    const file = join(path, `${name}.json`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, formatGolden(journal));
  }
  console.log(`${folder}: ${journals.size} journals`);
}

/** `resting, timer.fired [isCurrent] -> deciding` becomes `resting/timer-fired-iscurrent-deciding`. */
function nameFile(edge: string): string {
  const words = edge.replace(/\{"type":"next","params":\{"type":"(\w+)"[^}]*\}\}/, '$1');
  return words
    .replaceAll(/[^A-Za-z]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .toLowerCase()
    .replace('-', '/');
}

const edges = new Map<string, GoldenJournal>();
for (const { edges: taken, events } of findEdgeJournals()) {
  const [first = ''] = taken;
  edges.set(nameFile(first), makeGolden('A shortest journal over these edges of the chart.', events, taken));
}
write('edges', edges);

const runs = new Map<string, GoldenJournal>();
for (const name of listScenes()) {
  const { about, events } = await recordScene(name);
  runs.set(name, makeGolden(about, events));
}
write('runs', runs);

writeFileSync(join(ROOT, 'format.json'), `${JSON.stringify({ made: MADE, ...describeFormat() }, null, 1)}\n`);
