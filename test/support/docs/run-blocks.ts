/**
 * Runs blocks of the guides in one process: `node --import use-sources.ts run-blocks.ts BLOCKS`, a JSON list of
 * `{ folder, file }`. The model of a block is the script in its folder. Prints a JSON list of `{ printed, error? }`.
 */

import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { format, stripVTControlCharacters } from 'node:util';
import { omitUndefined } from '../../../protocol/json.ts';

/** Loaded machines need many times what a block takes. */
const LIMIT_MS = 60_000;
const tooLong = () =>
  new Promise<never>((_, fail) => {
    setTimeout(() => fail(new Error(`The block has not ended after ${LIMIT_MS} ms.`)), LIMIT_MS).unref();
  });

// Blocks see no arguments.
const [given = '[]'] = process.argv.splice(2);
const blocks: { folder: string; file: string }[] = JSON.parse(given);
const write = process.stdout.write.bind(process.stdout);
const results: { printed: string; error?: string }[] = [];
for (const { folder, file } of blocks) {
  let printed = '';
  process.stdout.write = piece => {
    printed += stripVTControlCharacters(String(piece));
    return true;
  };
  console.log = (...values) => void process.stdout.write(`${format(...values)}\n`);
  process.env.AGENTCHART_MODEL = 'scripted:script.json';
  process.chdir(folder);
  const error = await Promise.race([import(pathToFileURL(join(folder, file)).href), tooLong()]).then(
    () => undefined,
    error => String(error?.stack ?? error),
  );
  results.push({ printed, ...omitUndefined({ error }) });
}
write(JSON.stringify(results), () => process.exit());
