/** `node --import ./test/support/use-sources.ts FILE` runs a file whose imports of the package are its sources. */
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

const root = new URL('../../', import.meta.url);
const { exports } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'));

registerHooks({
  resolve(specifier, context, nextResolve) {
    const built = specifier.startsWith('agentchart') && exports[specifier.replace('agentchart', '.')];
    if (typeof built !== 'string' || !built.startsWith('./dist/')) return nextResolve(specifier, context);
    return nextResolve(new URL(built.replace('./dist/', './').replace(/\.js$/, '.ts'), root).href, context);
  },
});
