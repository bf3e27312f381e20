import { type ProviderContext, unsupported } from '../http/provider-errors.ts';

/**
 * Loads a module of an optional peer dependency. Bundlers leave the import alone, so that an adapter can be bundled
 * without the package. Throws a `ProviderError` with the command that installs it if it is missing.
 */
export async function loadPeer<Module>(module: string, context: ProviderContext): Promise<Module> {
  try {
    return await import(/* @vite-ignore */ module);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'ERR_MODULE_NOT_FOUND') throw error;
    const name = /^(?:@[^/]+\/)?[^/]+/.exec(module)?.[0];
    throw unsupported(`the package ${name} is not installed. Install it with: npm install ${name}`, context);
  }
}
