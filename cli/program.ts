import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import type { AnswerOptions, ApproveOptions, RejectOptions, ResolveOptions } from './commands/decide.ts';
import type { DeleteCommandOptions } from './commands/delete.ts';
import type { DiagramOptions } from './commands/diagram.ts';
import type { ExploreCommandOptions } from './commands/explore.ts';
import type { ExportOptions } from './commands/export.ts';
import type { ForkOptions } from './commands/fork.ts';
import type { MigrateCommandOptions } from './commands/migrate.ts';
import type { RedactCommandOptions } from './commands/redact.ts';
import type { ReplayOptions } from './commands/replay.ts';
import type { RunCommandOptions } from './commands/run.ts';
import type { RunsOptions } from './commands/runs.ts';
import type { ServeOptions } from './commands/serve.ts';
import type { ShowCommandOptions } from './commands/show.ts';
import { HELP } from './help.ts';
import type { DriveOptions, ShowOptions } from './options.ts';

const RUN = 'the id of a run, or the beginning of one';
const CALL = 'the id of an open call; `show RUN` lists them';

/** Runs a command line; gives the exit code. Each command loads only what it needs. */
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
    .description('Runs agents you can see, stop, prove and resume.')
    .version(readVersion())
    .exitOverride()
    .showHelpAfterError('(--help says more)')
    .addHelpText('after', HELP);
  addRunning(program, end);
  addDecisions(program, end);
  addSteering(program, end);
  addRemoving(program, end);
  addLooking(program, end);
  return program;
}

function addRunning(program: Command, end: (exitCode: number) => void): void {
  driving(program.command('run'))
    .summary('begin a run and drive it until it rests or ends')
    .description(
      'Begins a run and drives it until it rests or ends. Without words the input is read from stdin.',
    )
    .argument('[input...]', 'what the agent is to do')
    .option('--yes', 'approve every call that asks for approval')
    .option('--no-stream', 'ask the model for whole turns')
    .option('--continues <run>', 'begin with the transcript of a run that has ended, and its agent')
    .action(async (words: string[], options: RunCommandOptions) =>
      end(await (await import('./commands/run.ts')).run(words, options)),
    );
  driving(program.command('resume'))
    .summary('go on with a run, or follow it')
    .description('Goes on with a run whose process ended; follows it if another process drives it.')
    .argument('<run>', RUN)
    .option('--yes', 'approve every call that asks for approval')
    .action(async (id: string, options: DriveOptions) =>
      end(await (await import('./commands/steer.ts')).resume(id, options)),
    );
  driving(program.command('send'))
    .summary('send a run a message')
    .description(
      'Sends a run a message for its next turn. Calls that wait for approval are refused by it, unless the agent queues messages.',
    )
    .argument('<run>', RUN)
    .argument('<text...>', 'the message')
    .action(async (id: string, words: string[], options: DriveOptions) =>
      end(await (await import('./commands/steer.ts')).send(id, words, options)),
    );
  driving(program.command('fork'))
    .summary('begin a run from the middle of another')
    .description(
      'Begins a run with the journal of another up to an entry, and drives it. Calls that were under way there are in doubt.',
    )
    .argument('<run>', RUN)
    .requiredOption('--at <seq>', 'the last entry that counts; `show RUN --events` lists them')
    .option('--message <text>', 'what the new run is told right behind that entry')
    .option('--no-drive', 'leave it where it begins')
    .action(async (id: string, options: ForkOptions) =>
      end(await (await import('./commands/fork.ts')).fork(id, options)),
    );
  reading(program.command('migrate'))
    .summary('go on with a run of an older version')
    .description(
      'Begins a run that goes on where one of an older version stands, by the migrations of its agent and of this release. The old run stays as it is; what was under way there is in doubt.',
    )
    .argument('<run>', RUN)
    .option('--agent <module>', 'a module whose default export is the agent')
    .option('--as <id>', 'the id of the new run, to migrate a run once more')
    .action(async (id: string, options: MigrateCommandOptions) =>
      end(await (await import('./commands/migrate.ts')).migrate(id, options)),
    );
  program
    .command('serve')
    .summary('serve the runs API')
    .description(
      'Serves the runs API and drives the runs of its agents, on this machine alone unless --host says otherwise. Goes on with runs whose process ended.',
    )
    .option('--agent <module>', 'a module whose default export is an agent; may be given again', collect)
    .option('--config <file>', 'JSON: the models and MCP servers that /v1/responses offers')
    .option('--host <host>', 'the address to listen on; not a loopback one only with a token', '127.0.0.1')
    .option('--port <port>', 'the port; 0 takes a free one', '4100')
    .option('--db <file>', 'where the runs are (default: AGENTCHART_DB, else .agentchart/runs.db)')
    .option('--token <token>', 'what clients must send (default: AGENTCHART_TOKEN, else nothing)')
    .action(async (options: Omit<ServeOptions, 'version'>) =>
      end(await (await import('./commands/serve.ts')).serve({ ...options, version: readVersion() })),
    );
}

function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

function addDecisions(program: Command, end: (exitCode: number) => void): void {
  driving(program.command('approve'))
    .summary('let a call run')
    .description('Lets a call run that waits for approval.')
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .option('--input <json>', 'run it with this input instead of the proposed one')
    .option('--digest <digest>', 'approve only the call with this digest: the one you saw')
    .option('--sticky', 'approve later calls of the same tool too')
    .action(async (id: string, callId: string, options: ApproveOptions) =>
      end(await (await import('./commands/decide.ts')).approve(id, callId, options)),
    );
  driving(program.command('reject'))
    .summary('refuse a call')
    .description('Refuses a call that waits for approval; the model is told.')
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .option('--reason <text>', 'why, for the model')
    .action(async (id: string, callId: string, options: RejectOptions) =>
      end(await (await import('./commands/decide.ts')).reject(id, callId, options)),
    );
  driving(program.command('answer'))
    .summary('give a call its result')
    .description(
      'Gives a call its result: one the client runs, or one that waits for approval and is not to run.',
    )
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .requiredOption('--output <json>', 'the result')
    .action(async (id: string, callId: string, options: AnswerOptions) =>
      end(await (await import('./commands/decide.ts')).answer(id, callId, options)),
    );
  driving(program.command('resolve'))
    .summary('say what became of a call in doubt')
    .description('Says what became of a call that may or may not have happened. Give one of the three.')
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .option('--retry', 'it did not happen: run it')
    .option('--force', 'with --retry: although an earlier attempt may still act')
    .option('--happened <json>', 'it happened, and gave this')
    .option('--failed <text>', 'it failed; the model reads why')
    .action(async (id: string, callId: string, options: ResolveOptions) =>
      end(await (await import('./commands/decide.ts')).resolve(id, callId, options)),
    );
}

function addSteering(program: Command, end: (exitCode: number) => void): void {
  showing(program.command('pause'))
    .summary('ask a run to rest before it spends more')
    .description('Asks a run to rest before it spends anything more. Does not wait for it.')
    .argument('<run>', RUN)
    .action(async (id: string, options: ShowOptions) =>
      end(await (await import('./commands/steer.ts')).pause(id, options)),
    );
  driving(program.command('unpause'), { by: false })
    .summary('let a paused run go on')
    .description('Lets a paused run go on.')
    .argument('<run>', RUN)
    .action(async (id: string, options: DriveOptions) =>
      end(await (await import('./commands/steer.ts')).unpause(id, options)),
    );
  driving(program.command('step'), { by: false })
    .summary('let one model call or batch of tools through')
    .description('Lets one model call or one batch of tools through, and pauses.')
    .argument('<run>', RUN)
    .action(async (id: string, options: DriveOptions) =>
      end(await (await import('./commands/steer.ts')).step(id, options)),
    );
  showing(program.command('cancel'))
    .summary('end a run')
    .description('Ends a run. What a process runs for it is aborted.')
    .argument('<run>', RUN)
    .option('--reason <text>', 'why, for the journal')
    .option('--by <name>', 'who says so (default: the OS user)')
    .action(async (id: string, options: ShowOptions & { by?: string; reason?: string }) =>
      end(await (await import('./commands/steer.ts')).cancel(id, options)),
    );
}

function addRemoving(program: Command, end: (exitCode: number) => void): void {
  reading(program.command('delete'))
    .summary('remove a run')
    .description(
      'Removes a run with the runs of its sub-agents, its journal and its large results. Refused while a process drives it, and while another run continues it.',
    )
    .argument('<run>', RUN)
    .option('--cascade', 'also the runs that continue it, or wait for one of its sub-agents')
    .action(async (id: string, options: DeleteCommandOptions) =>
      end(await (await import('./commands/delete.ts')).deleteRun(id, options)),
    );
  reading(program.command('redact'))
    .summary("replace values of a run's journal by their digests")
    .description(
      'Replaces values of a journal by their SHA-256, and removes what the store keeps of them. `export RUN` shows where they are.',
    )
    .argument('<run>', RUN)
    .requiredOption(
      '--path <pointer>',
      "a JSON Pointer that begins with an entry's number, such as /1/input/0/content/0/text; may be given again",
      collect,
    )
    .option('--by <name>', 'who says so (default: the OS user)')
    .action(async (id: string, options: RedactCommandOptions) =>
      end(await (await import('./commands/redact.ts')).redact(id, options)),
    );
}

function addLooking(program: Command, end: (exitCode: number) => void): void {
  reading(program.command('runs'))
    .summary('list the runs')
    .description('Lists the runs, newest first.')
    .option('--status <status>', 'only running, waiting, finished, failed or cancelled ones')
    .option('--limit <number>', 'at most so many', '50')
    .action(async (options: RunsOptions) => end(await (await import('./commands/runs.ts')).runs(options)));
  reading(program.command('show'))
    .summary('show where a run stands, and why')
    .description('Shows a run: where it stands and why, its conversation, what it waits for.')
    .argument('<run>', RUN)
    .option('--events', 'list its journal instead')
    .option('--result <call>', "write the whole JSON of this call's result instead, also of a large one")
    .option(
      '--agent <module>',
      'compare it with the agent of this module: what differs, and what comes of it',
    )
    .action(async (id: string, options: ShowCommandOptions) =>
      end(await (await import('./commands/show.ts')).show(id, options)),
    );
  reading(program.command('export'))
    .summary('write a run as a file')
    .description('Writes a run as JSON, with the runs it continues: its journal, and the hash of its state.')
    .argument('<run>', RUN)
    .option('--test', 'write a vitest file that plays it again, without keys, instead')
    .option('--out <file>', 'write it there instead of to stdout')
    .action(async (id: string, options: Omit<ExportOptions, 'version'>) =>
      end(
        await (await import('./commands/export.ts')).exportToFile(id, { ...options, version: readVersion() }),
      ),
    );
  reading(program.command('replay'))
    .summary('prove that a journal leads to its state')
    .description(
      'Folds a run again with the results it recorded, and compares. Executes nothing and writes nothing. Exits 1 if it is not equal.',
    )
    .argument('<run>', `${RUN}, or a file that export wrote`)
    .option('--until <seq>', 'stop behind this entry, and show where the run stood there')
    .action(async (named: string, options: ReplayOptions) =>
      end(await (await import('./commands/replay.ts')).replay(named, options)),
    );
  program
    .command('explore')
    .summary('walk everything an agent can do')
    .description(
      "Walks every path of the chart with an agent's own tools, approvals and limits, and checks every step. Executes nothing. Exits 1 if something breaks.",
    )
    .requiredOption('--agent <module>', 'a module whose default export is the agent')
    .option('--max-states <number>', 'stop after so many states')
    .option('--connect', "start the agent's tool servers, to know their tools; none is called")
    .option('--json', 'the report as JSON')
    .action(async (options: ExploreCommandOptions) =>
      end(await (await import('./commands/explore.ts')).exploreAgent(options)),
    );
  program
    .command('diagram')
    .summary('print the chart')
    .description('Prints the chart that every agent is.')
    .option('--mermaid', 'as a Mermaid state diagram')
    .option('--json', 'as JSON: states and edges')
    .option('--svg', 'as an SVG picture, light and dark')
    .action(async (options: DiagramOptions) =>
      end(await (await import('./commands/diagram.ts')).diagram(options)),
    );
}

function reading(command: Command): Command {
  return command
    .option('--db <file>', 'where the runs are (default: AGENTCHART_DB, else .agentchart/runs.db)')
    .option('--json', 'a JSON object a line on stdout; text for people on stderr');
}

function showing(command: Command): Command {
  return reading(command).option(
    '--deltas',
    'with --json: also what is not journaled, such as streamed text',
  );
}

function driving(command: Command, { by = true }: { by?: boolean } = {}): Command {
  const driven = showing(command).option('--agent <module>', 'a module whose default export is the agent');
  return by ? driven.option('--by <name>', 'who says so (default: the OS user)') : driven;
}

function readVersion(): string {
  const file = createRequire(import.meta.url).resolve('agentchart/package.json');
  return String(JSON.parse(readFileSync(file, 'utf8')).version);
}
