import type { Command } from 'commander';
import type { InspectOptions } from '../commands/inspecting/inspect.ts';
import { RUN, reading } from './command-options.ts';

/** Adds `inspect`. */
export function addInspect(
  program: Command,
  end: (exitCode: number) => void,
  readVersion: () => string,
): void {
  reading(program.command('inspect'))
    .summary('open a run in the debugger, read-only')
    .description(
      'Serve the web page for one run, on this machine only, until you stop it. Executes nothing and writes nothing.',
    )
    .argument('<run>', `${RUN}; or a file written by \`export\``)
    .option('--port <port>', 'port to listen on; 0 picks a free one', '0')
    .action(async (named: string, options: Omit<InspectOptions, 'version'>) => {
      const { inspect } = await import('../commands/inspecting/inspect.ts');
      end(await inspect(named, { ...options, version: readVersion() }));
    });
}
