import type { Command } from 'commander';
import type { BackupOptions } from '../commands/backup.ts';
import type { DeleteCommandOptions } from '../commands/removal/delete.ts';
import type { PruneCommandOptions } from '../commands/removal/prune.ts';
import type { RedactCommandOptions } from '../commands/removal/redact.ts';
import { BY, collect, RUN, reading } from './command-options.ts';

/** Adds the commands that delete data, and `backup`. */
export function addRemoving(program: Command, end: (exitCode: number) => void): void {
  reading(program.command('delete'))
    .summary('delete a run')
    .description(
      'Delete a run with its journal, its large results and the runs of its sub-agents. Refused while a process drives the run or another run continues it.',
    )
    .argument('<run>', RUN)
    .option('--cascade', 'also delete runs that continue it or wait for one of its sub-agents')
    .action(async (id: string, options: DeleteCommandOptions) =>
      end(await (await import('../commands/removal/delete.ts')).deleteRun(id, options)),
    );
  reading(program.command('prune'))
    .summary('delete runs that ended before a time')
    .description(
      'Delete the runs that ended before a time, with the runs of their sub-agents. Spares runs that a process drives or that a later run continues.',
    )
    .requiredOption('--before <time>', 'date or time, such as 2026-11-01 or 2026-11-01T08:00:00Z')
    .option('--status <status>', 'only these: finished, failed or cancelled')
    .option('--label <name=value>', 'only runs with this label; repeatable', collect)
    .option('--dry-run', 'delete nothing; print how many runs would be deleted')
    .action(async (options: PruneCommandOptions) =>
      end(await (await import('../commands/removal/prune.ts')).prune(options)),
    );
  reading(program.command('backup'))
    .summary('copy the store to a new file')
    .description(
      'Copy all runs to a new file while other processes keep using the store. The file is a complete store: open it with --db.',
    )
    .argument('<file>', 'file to create; refused if it exists')
    .action(async (target: string, options: BackupOptions) =>
      end(await (await import('../commands/backup.ts')).backUp(target, options)),
    );
  reading(program.command('redact'))
    .summary('redact values in the journal of a run')
    .description(
      'Replace values in the journal with their SHA-256 digests, and delete the copies in the store. `show RUN --events --json` prints the entries that the paths refer to.',
    )
    .argument('<run>', RUN)
    .requiredOption(
      '--path <pointer>',
      'JSON Pointer that starts with an entry number, such as /1/input/0/content/0/text; repeatable',
      collect,
    )
    .option('--by <name>', BY)
    .action(async (id: string, options: RedactCommandOptions) =>
      end(await (await import('../commands/removal/redact.ts')).redact(id, options)),
    );
}
