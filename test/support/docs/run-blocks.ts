/**
 * Runs blocks of the guides in one process: `node run-blocks.ts BLOCKS`, a JSON list of `{ folder, file }`. The
 * model of a block is the script in its folder. Prints a JSON list of `{ printed, error? }`.
 */
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { format, stripVTControlCharacters } from 'node:util';

const root = new URL('../../../', import.meta.url);
const { exports } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));

/** The entries of the package are its sources. */
registerHooks({
  resolve(specifier, context, nextResolve) {
    const built = specifier.startsWith('agentchart') && exports[specifier.replace('agentchart', '.')];
    if (typeof built !== 'string') return nextResolve(specifier, context);
    return nextResolve(new URL(built.replace('./dist/', './').replace(/\.js$/, '.ts'), root).href, context);
  },
});

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
  results.push({ printed, ...(error !== undefined && { error }) });
}
write(JSON.stringify(results), () => process.exit());
