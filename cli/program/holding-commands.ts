import type { Command } from 'commander';
import type { BreakOptions } from '../commands/break.ts';
import type { EditOptions } from '../commands/edit.ts';
import { BY, CALL, collect, driving, RUN, reading } from './command-options.ts';

/** Adds `break` and `edit`. */
export function addHolding(program: Command, end: (exitCode: number) => void): void {
  reading(program.command('break'))
    .summary('hold a run before an action')
    .description(
      "Set a breakpoint: the run pauses before an action that matches all of --before, --tool, --where, --turn and --cost-over. Without options, list the run's breakpoints.",
    )
    .argument('<run>', RUN)
    .option('--before <action>', 'callModel, executeTools, interruptForApproval, finish, …')
    .option('--tool <name>', 'one of the calls is of this tool')
    .option('--where <condition>', "the input of such a call, such as 'input.cents>10000'")
    .option('--turn <number>', 'the turn of the action; a model call begins a turn')
    .option('--cost-over <number>', 'the run has cost more than this')
    .option('--once', 'remove the breakpoint when the run continues from it')
    .option('--id <id>', 'name of the breakpoint, replaces one of the same name (default: b1, b2, …)')
    .option('--remove <id>', 'remove this breakpoint; repeatable', collect)
    .option('--clear', 'remove all breakpoints')
    .option('--by <name>', BY)
    .action(async (id: string, options: BreakOptions) =>
      end(await (await import('../commands/break.ts')).setBreakpoints(id, options)),
    );
  driving(program.command('edit'))
    .summary("edit the model's reply, or the input of a call")
    .description(
      'Edit the latest reply of a run at rest, before its calls start. With a call, edit only the input of that call. Give options, or JSON on stdin: a reply is { "text", "calls": [{ "callId", "name", "input" }] }. A call without callId is new; a call that is not listed is dropped. A paused run stays paused.',
    )
    .argument('<run>', RUN)
    .argument('[call]', CALL)
    .option('--show', 'print the reply, or the input of the call, as JSON to edit')
    .option('--text <text>', 'replace the text of the reply')
    .option('--calls <json>', 'replace the calls of the reply')
    .option('--turn <number>', 'edit only if this is the latest turn')
    .option('--input <json>', 'replace the input of the call')
    .option('--digest <digest>', 'edit only if the call has this digest')
    .action(async (id: string, callId: string | undefined, options: EditOptions) =>
      end(await (await import('../commands/edit.ts')).edit(id, callId, options)),
    );
}
