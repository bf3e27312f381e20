/**
 * The command line, built with commander.
 *
 * program.ts and program/ define every command with its arguments, options and help text, with the
 * options that commands share. `commands/` implements them,
 * one file per command or group of commands; each exported function takes the parsed options and returns the
 * exit code. `render/` formats output. The other files in this folder are shared by the commands: opening
 * stores, finding runs, loading agents, driving a run, and asking for decisions on a terminal.
 */
import { Command, CommanderError } from 'commander';
import type { AnswerOptions, ApproveOptions, RejectOptions, ResolveOptions } from './commands/decide.ts';
import type { DiagramOptions } from './commands/diagram.ts';
import type { ExportOptions } from './commands/export.ts';
import type { ForkOptions } from './commands/fork.ts';
import type { MigrateCommandOptions } from './commands/migrate.ts';
import type { ReplayOptions } from './commands/replay.ts';
import type { RunCommandOptions } from './commands/run.ts';
import type { RunsOptions } from './commands/runs.ts';
import type { ShowCommandOptions } from './commands/show.ts';
import type { TracesOptions } from './commands/traces.ts';
import { HELP } from './help.ts';
import type { DriveOptions, ShowOptions } from './options.ts';
import {
  AGENT,
  BY,
  CALL,
  collect,
  driving,
  LABEL,
  RUN,
  reading,
  readVersion,
  showing,
} from './program/command-options.ts';
import { addExplore } from './program/explore-command.ts';
import { addHolding } from './program/holding-commands.ts';
import { addDoctor, addInspect } from './program/inspect-command.ts';
import { addRemoving } from './program/removing-commands.ts';
import { addServing } from './program/serving-commands.ts';

/** Runs one command line and returns its exit code. Each command loads only the modules it needs. */
export async function runProgram(args: readonly string[]): Promise<number> {
  let exitCode = 0;
  const program = makeProgram(code => {
    exitCode = code;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const { describeFailure } = await import('./report-failure.ts');
    const { showSafely } = await import('./render/show-safely.ts');
    const failure = describeFailure(error);
    process.stderr.write(`${showSafely(failure.message, { lines: true })}\n`);
    return failure.exitCode;
  }
}

function makeProgram(end: (exitCode: number) => void): Command {
  const program = new Command('agentchart')
    .usage('COMMAND [options]')
    .description('Run agents that you can inspect, stop, verify and resume.')
    .version(readVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .exitOverride()
    .showHelpAfterError('(use --help for usage)')
    .addHelpText('after', HELP);
  addRunning(program.commandsGroup('Start and resume:'), end);
  addDecisions(program.commandsGroup('Decide about open calls:'), end);
  addSteering(program.commandsGroup('Control a run:'), end);
  addInspecting(program.commandsGroup('Inspect:'), end);
  addRemoving(program.commandsGroup('Back up and delete data:'), end);
  program.commandsGroup('Help:');
  program
    .command('completion')
    .summary('print a completion script for a shell')
    .description(
      'Print a script that completes commands, options and run ids, for bash, zsh or fish. Load it when the shell starts: source <(agentchart completion bash), the same for zsh, or agentchart completion fish | source.',
    )
    .argument('<shell>', 'bash, zsh or fish')
    .action(async (shell: string) =>
      end((await import('./commands/completion.ts')).completion(shell, program)),
    );
  program.helpCommand('help [command]', 'show help for a command');
  return program;
}

function addRunning(program: Command, end: (exitCode: number) => void): void {
  driving(program.command('run'))
    .summary('start a run')
    .description(
      'Start a run and drive it until it ends or has to wait. Reads the input from stdin if no text is given.',
    )
    .argument('[input...]', 'task for the agent')
    .option('--yes', 'approve every call that needs approval')
    .option('--no-stream', 'do not stream model responses')
    .option('--label <name=value>', LABEL, collect)
    .option('--title <text>', 'title of the run in lists (default: the first line of the input)')
    .option('--continues <run>', 'start from the transcript of an ended run; uses its agent by default')
    .option('--context <json>', 'run context, for an agent that requires one')
    .action(async (words: string[], options: RunCommandOptions) =>
      end(await (await import('./commands/run.ts')).run(words, options)),
    );
  driving(program.command('resume'))
    .summary('resume a run, or follow it')
    .description('Resume a run whose process ended. If another process is driving it, follow it instead.')
    .argument('<run>', RUN)
    .option('--yes', 'approve every call that needs approval')
    .action(async (id: string, options: DriveOptions) =>
      end(await (await import('./commands/steer.ts')).resume(id, options)),
    );
  driving(program.command('send'))
    .summary('send a message to a run')
    .description(
      'Send a message that the model reads in its next turn. Calls that wait for approval keep waiting, unless the agent is configured to reject them.',
    )
    .argument('<run>', RUN)
    .argument('<text...>', 'message text')
    .action(async (id: string, words: string[], options: DriveOptions) =>
      end(await (await import('./commands/steer.ts')).send(id, words, options)),
    );
  driving(program.command('fork'))
    .summary('start a new run from an entry of another')
    .description(
      'Start a new run from a copy of another journal up to an entry, and drive it. Calls that were running at that entry are in doubt in the new run.',
    )
    .argument('<run>', RUN)
    .requiredOption('--at <seq>', 'last entry to copy; `show RUN --events` lists the entries')
    .option('--message <text>', 'message to send to the new run first')
    .option('--paused', 'rest after that entry, before anything follows from it')
    .option('--replay-tools', 'take the results of equal calls from the original; execute no tool')
    .option('--model <model>', 'another model, such as openai:gpt-5 or scripted:FILE')
    .option('--set-param <name=json>', 'a parameter for the next turns; repeatable', collect)
    .option('--approve <call>', 'approve this call')
    .option('--reject <call>', 'reject this call')
    .option('--result <call>', 'give this call the result in --output')
    .option('--input <json>', 'the edited input, for --approve')
    .option('--output <json>', 'the result, for --result')
    .option('--text <text>', "another text for the latest turn's reply")
    .option('--no-drive', 'create the run without driving it')
    .action(async (id: string, options: ForkOptions) =>
      end(await (await import('./commands/fork.ts')).fork(id, options)),
    );
  reading(program.command('migrate'))
    .summary('convert a run of an older version')
    .description(
      'Create a new run from one of an older version, using the migrations of its agent and of this release. The old run is not changed. Calls that were running are in doubt in the new run.',
    )
    .argument('<run>', RUN)
    .option('--agent <module>', AGENT)
    .option('--as <id>', 'id of the new run; needed to migrate the same run again')
    .action(async (id: string, options: MigrateCommandOptions) =>
      end(await (await import('./commands/migrate.ts')).migrate(id, options)),
    );
  addServing(program, end);
}

function addDecisions(program: Command, end: (exitCode: number) => void): void {
  driving(program.command('approve'))
    .summary('approve a call')
    .description('Approve a call that waits for approval, and resume the run.')
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .option('--input <json>', 'run the call with this input instead of the proposed one')
    .option('--digest <digest>', 'approve only if the call has this digest')
    .option('--sticky', 'also approve later calls of the same tool in this run')
    .action(async (id: string, callId: string, options: ApproveOptions) =>
      end(await (await import('./commands/decide.ts')).approve(id, callId, options)),
    );
  driving(program.command('reject'))
    .summary('reject a call')
    .description('Reject a call that waits for approval, and resume the run. The model reads the rejection.')
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .option('--reason <text>', 'reason to give to the model')
    .action(async (id: string, callId: string, options: RejectOptions) =>
      end(await (await import('./commands/decide.ts')).reject(id, callId, options)),
    );
  driving(program.command('answer'))
    .summary('supply the result of a call')
    .description(
      'Supply the result of a client tool call, or of a call that waits for approval, which then does not run. Resumes the run.',
    )
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .requiredOption('--output <json>', 'result of the call')
    .action(async (id: string, callId: string, options: AnswerOptions) =>
      end(await (await import('./commands/decide.ts')).answer(id, callId, options)),
    );
  driving(program.command('resolve'))
    .summary('resolve a call in doubt')
    .description(
      'Resolve a call in doubt: one that was started and whose outcome is unknown. Give exactly one of --retry, --happened and --failed.',
    )
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .option('--retry', 'the call did not happen: run it again')
    .option('--force', 'with --retry: run it even if an earlier attempt may still take effect')
    .option('--happened <json>', 'the call happened, with this result')
    .option('--failed <text>', 'the call failed, for this reason (shown to the model)')
    .action(async (id: string, callId: string, options: ResolveOptions) =>
      end(await (await import('./commands/decide.ts')).resolve(id, callId, options)),
    );
}

function addSteering(program: Command, end: (exitCode: number) => void): void {
  showing(program.command('pause'))
    .summary('pause a run')
    .description(
      'Pause a run before its next model call or batch of tools. Returns at once; work in progress completes.',
    )
    .argument('<run>', RUN)
    .action(async (id: string, options: ShowOptions) =>
      end(await (await import('./commands/steer.ts')).pause(id, options)),
    );
  driving(program.command('unpause'), { by: false })
    .summary('unpause a run')
    .description('Unpause a run and drive it.')
    .argument('<run>', RUN)
    .action(async (id: string, options: DriveOptions) =>
      end(await (await import('./commands/steer.ts')).unpause(id, options)),
    );
  driving(program.command('step'), { by: false })
    .summary('run one step, then pause')
    .description('Run one model call or one batch of tools, then pause.')
    .argument('<run>', RUN)
    .action(async (id: string, options: DriveOptions) =>
      end(await (await import('./commands/steer.ts')).step(id, options)),
    );
  addHolding(program, end);
  showing(program.command('cancel'))
    .summary('cancel a run')
    .description('Cancel a run and abort its model and tool calls.')
    .argument('<run>', RUN)
    .option('--reason <text>', 'reason to record in the journal')
    .option('--by <name>', BY)
    .action(async (id: string, options: ShowOptions & { by?: string; reason?: string }) =>
      end(await (await import('./commands/steer.ts')).cancel(id, options)),
    );
}

function addInspecting(program: Command, end: (exitCode: number) => void): void {
  reading(program.command('runs'))
    .summary('list runs')
    .description('List runs, newest first, with what they wait for.')
    .option('--status <status>', 'only runs that are running, waiting, finished, failed or cancelled')
    .option('--waiting', 'only runs that wait; the same as --status waiting')
    .option('--agent <name>', 'only runs of this agent')
    .option('--label <name=value>', 'only runs with this label; repeatable', collect)
    .option('--text <text>', 'only runs with this text in their title')
    .option(
      '--since <time>',
      'only runs started at this time or later, such as 2026-11-22 or 2026-11-22T08:00Z',
    )
    .option('--before <time>', 'only runs started before this time')
    .option('--limit <number>', 'maximum number of runs to list, up to 1000', '50')
    .option('--wide', 'do not fit the list to the terminal: whole ids, titles and names')
    .option('--cursor <cursor>', 'continue a list where its page ended; needs the same filters')
    .action(async (options: RunsOptions) => end(await (await import('./commands/runs.ts')).runs(options)));
  reading(program.command('show'))
    .summary('show a run')
    .description('Show the state of a run, its conversation, and what it waits for.')
    .argument('<run>', RUN)
    .option('--events', 'list the journal instead')
    .option('--result <call>', 'print the full result of this call as JSON instead')
    .option('--agent <module>', 'agent module to compare the run with: lists version differences')
    .action(async (id: string, options: ShowCommandOptions) =>
      end(await (await import('./commands/show.ts')).show(id, options)),
    );
  reading(program.command('export'))
    .summary('export a run to a file')
    .description('Export a run as JSON: its journal, its state hash, and the runs that it continues.')
    .argument('<run>', RUN)
    .option('--test', 'export a vitest file that replays the run without API keys')
    .option('--out <file>', 'file to write (default: stdout)')
    .action(async (id: string, options: Omit<ExportOptions, 'version'>) =>
      end(
        await (await import('./commands/export.ts')).exportToFile(id, { ...options, version: readVersion() }),
      ),
    );
  reading(program.command('replay'))
    .summary('check that a journal reproduces the state')
    .description(
      'Fold the journal of a run again and compare the states. Executes nothing and writes nothing. Exits with 1 if a state differs.',
    )
    .argument('<run>', `${RUN}; or a file written by \`export\``)
    .option('--until <seq>', 'stop after this entry and show the state of the run there')
    .action(async (named: string, options: ReplayOptions) =>
      end(await (await import('./commands/replay.ts')).replay(named, options)),
    );
  addInspect(program, end, readVersion);
  addDoctor(program, end);
  reading(program.command('traces'))
    .summary("send a run's spans to OpenTelemetry")
    .description(
      "Make the spans of a run and of its sub-agents' runs from their journals, and post them to an OTLP receiver. Sending them again changes nothing: the ids are the same. Without --otlp, print them.",
    )
    .argument('<run>', RUN)
    .option('--otlp <url>', 'receiver to post to, such as http://localhost:4318, at its /v1/traces')
    .option('--content', 'include messages, arguments and results')
    .action(async (id: string, options: Omit<TracesOptions, 'version'>) =>
      end(await (await import('./commands/traces.ts')).traces(id, { ...options, version: readVersion() })),
    );
  addExplore(program, end);
  program
    .command('diagram')
    .summary('print the chart')
    .description('Print the statechart that every run follows. Give exactly one format.')
    .option('--mermaid', 'Mermaid state diagram')
    .option('--json', 'JSON: states and edges')
    .option('--svg', 'SVG image with light and dark themes')
    .action(async (options: DiagramOptions) =>
      end(await (await import('./commands/diagram.ts')).diagram(options)),
    );
}
