import type { Command } from 'commander';
import type { DoctorOptions } from '../commands/inspecting/doctor.ts';
import type { InspectOptions } from '../commands/inspecting/inspect.ts';
import { AGENT, collect, RUN, reading } from './command-options.ts';

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

/** Adds `doctor`. */
export function addDoctor(program: Command, end: (exitCode: number) => void): void {
  reading(program.command('doctor'))
    .summary('list the runs that a deploy would strand')
    .description(
      'List the unfinished runs that workers of this release, with the given agents, would not drive: each with the reason and what to do. Also list runs in doubt and runs whose process is gone, and check the database. Reads the list of runs, not their journals. Changes nothing. Exits with 1 if a run would be stranded.',
    )
    .option('--agent <module>', `${AGENT}; repeatable; without it, agents are not compared`, collect)
    .action(async (options: DoctorOptions) =>
      end(await (await import('../commands/inspecting/doctor.ts')).doctor(options)),
    );
}
