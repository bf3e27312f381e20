import { type ProviderContext, unsupported } from '../http/provider-errors.ts';

/**
 * Loads an optional peer dependency. Throws a `ProviderError` with the command that installs it if it is
 * missing.
 */
export async function loadPeer<Module>(
  name: string,
  load: () => Promise<Module>,
  context: ProviderContext,
): Promise<Module> {
  try {
    return await load();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw unsupported(`the package ${name} is not installed. Install it with: npm install ${name}`, context);
  }
}
