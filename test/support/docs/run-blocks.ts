/**
 * Runs blocks of the guides in one process: `node run-blocks.ts BLOCKS`, a JSON list of `{ folder, file }`. The
 * model of a block is the script in its folder. Prints a JSON list of `{ printed, error? }`.
 */
import { omitUndefined } from '../../../protocol/json.ts';
import '../use-sources.ts';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { format, stripVTControlCharacters } from 'node:util';

const blocks: { folder: string; file: string }[] = JSON.parse(process.argv[2] ?? '[]');
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
  const error = await import(pathToFileURL(join(folder, file)).href).then(
    () => undefined,
    error => String(error?.stack ?? error),
  );
  results.push({ printed, ...omitUndefined({ error }) });
}
write(JSON.stringify(results), () => process.exit());
