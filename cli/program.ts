/**
 * The command line, built with commander from the table of commands. Each command's file is loaded only when the
 * command runs.
 *
 * `commands/` implements the commands; `render/` formats output. The other files in this folder are shared by the
 * commands: opening stores, loading agents, driving a run, and asking for decisions on a terminal.
 */
import { Command, CommanderError, Option } from 'commander';
import {
  type Action,
  COMMANDS,
  type CommandName,
  type DeclaredCommand,
  type DeclaredOption,
  type GivenTo,
} from './command-table.ts';
import { readVersion } from './options.ts';

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
    const { describeFailure } = await import('./exit-codes.ts');
    const { showSafely } = await import('./render/format.ts');
    const failure = describeFailure(error);
    process.stderr.write(`${showSafely(failure.message, { lines: true })}\n`);
    return failure.exitCode;
  }
}

export function makeProgram(end: (exitCode: number) => void): Command {
  const program = new Command('agentchart')
    .usage('COMMAND [options]')
    .description('Run agents that you can inspect, stop, verify and resume.')
    .version(readVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .exitOverride()
    .enablePositionalOptions()
    .showHelpAfterError('(use --help for usage)')
    .addHelpText('after', HELP);
  const add = <Name extends CommandName>(name: Name, load: () => Promise<Action<Name>>) => {
    const command = declare(program, name);
    command.action(async () => end(await (await load())(command.opts<GivenTo<Name>>(), command)));
  };
  add('run', async () => (await import('./commands/run.ts')).run);
  add('resume', async () => (await import('./commands/change.ts')).resume);
  add('send', async () => (await import('./commands/change.ts')).send);
  add('fork', async () => (await import('./commands/fork.ts')).forkCommand);
  add('migrate', async () => (await import('./commands/migrate.ts')).migrateCommand);
  add('serve', async () => (await import('./commands/serve.ts')).serve);
  add('code', async () => (await import('./commands/code.ts')).code);
  add('worker', async () => (await import('./commands/worker.ts')).driveRuns);
  add('mcp', async () => (await import('./commands/mcp.ts')).mcpCommand);
  add('mcp login', async () => (await import('./commands/mcp-login.ts')).login);
  add('mcp logout', async () => (await import('./commands/mcp-login.ts')).logout);
  add('approve', async () => (await import('./commands/change.ts')).approve);
  add('reject', async () => (await import('./commands/change.ts')).reject);
  add('answer', async () => (await import('./commands/change.ts')).answer);
  add('resolve', async () => (await import('./commands/change.ts')).resolve);
  add('pause', async () => (await import('./commands/change.ts')).pause);
  add('unpause', async () => (await import('./commands/change.ts')).unpause);
  add('step', async () => (await import('./commands/change.ts')).step);
  add('break', async () => (await import('./commands/break.ts')).setBreakpoints);
  add('edit', async () => (await import('./commands/edit.ts')).edit);
  add('cancel', async () => (await import('./commands/change.ts')).cancel);
  add('runs', async () => (await import('./commands/runs.ts')).runs);
  add('watch', async () => (await import('./commands/watch.ts')).watch);
  add('show', async () => (await import('./commands/show.ts')).show);
  add('threads', async () => (await import('./commands/threads.ts')).threads);
  add('thread', async () => (await import('./commands/threads.ts')).showThread);
  add('notes', async () => (await import('./commands/notes.ts')).showNotes);
  add('export', async () => (await import('./commands/export.ts')).exportToFile);
  add('replay', async () => (await import('./commands/replay.ts')).replay);
  add('inspect', async () => (await import('./commands/inspect.ts')).inspect);
  add('doctor', async () => (await import('./commands/doctor.ts')).doctor);
  add('traces', async () => (await import('./commands/traces.ts')).traces);
  add('explore', async () => (await import('./commands/explore.ts')).exploreAgent);
  add('regress', async () => (await import('./commands/regress.ts')).regressAgent);
  add('rules', async () => (await import('./commands/rules.ts')).rules);
  add('diagram', async () => (await import('./commands/diagram.ts')).diagram);
  add('delete', async () => (await import('./commands/data.ts')).deleteRun);
  add('prune', async () => (await import('./commands/data.ts')).prune);
  add('backup', async () => (await import('./commands/data.ts')).backup);
  add('redact', async () => (await import('./commands/data.ts')).redact);
  add('completion', async () => (await import('./commands/completion.ts')).completion);
  add('docs', async () => (await import('./commands/docs.ts')).docs);
  return program.helpCommand('help [command]', 'show help for a command');
}

/** Adds a command, whose arguments become options of their name. Options are read once all are known. `mcp login` is one of `mcp`. */
function declare(program: Command, name: CommandName): Command {
  const { heading, summary, description, ...parameters }: DeclaredCommand = COMMANDS[name];
  if (heading !== undefined) program.commandsGroup(heading);
  const [word = '', parent = ''] = name.split(' ').reverse();
  const above = program.commands.find(each => each.name() === parent)?.enablePositionalOptions() ?? program;
  const command = above.command(word).summary(summary).description(description);
  if ('<call>' in parameters)
    command.showHelpAfterError('(agentchart show RUN lists its open calls; use --help for usage)');
  for (const [form, declared] of Object.entries<string | DeclaredOption>(parameters)) {
    const {
      help,
      preset,
      read,
      isMany,
      isRequired = false,
    } = typeof declared === 'string' ? plain(declared) : declared;
    if (!form.startsWith('--')) {
      command.argument(form, help);
      continue;
    }
    const option = new Option(form, help).makeOptionMandatory(isRequired).default(preset);
    if (isMany) option.argParser((text, before: readonly string[] = []) => [...before, text]);
    command.addOption(option);
    const key = option.attributeName();
    command.hook('preAction', () => {
      const given = command.getOptionValue(key);
      const source = command.getOptionValueSource(key);
      if (read !== undefined && given !== undefined)
        command.setOptionValueWithSource(key, read(given, `${option.long}`), source ?? 'default');
    });
  }
  return command.hook('preAction', () => {
    for (const [at, argument] of command.registeredArguments.entries())
      command.setOptionValue(argument.name(), command.processedArgs[at]);
  });
}

const plain = (help: string): DeclaredOption => ({ help });

const HELP = `
Example:
  $ export AGENTCHART_MODEL=openai:gpt-5
  $ agentchart run --agent refund.ts "Refund order A-1001"    # a call needs approval: exits with 3
  $ agentchart show run_1f                                    # state, conversation, open calls
  $ agentchart approve run_1f call_7 --digest 5c…             # approve the call and drive the run
  $ agentchart watch                                          # runs and inbox, live, with two presses to decide
  $ agentchart resume run_1f                                  # resume a run whose process was killed
  $ agentchart serve --agent refund.ts                        # the same in a browser and over HTTP
  $ agentchart mcp --agent refund.ts                          # the agent as a tool of MCP clients
  $ agentchart mcp login crm --agent refund.ts                # sign in at an MCP server of the agent
  $ agentchart code claude                                    # Claude Code on this model, every request a run

An agent module has an agent as its default export: export default createAgent({ name, instructions, tools }).
Without --agent, run uses an assistant without tools. A run remembers its agent module and model.

Environment:
  AGENTCHART_MODEL    PROVIDER:MODEL, such as openai:gpt-5, or scripted:FILE; overrides the agent's model
  AGENTCHART_TOKEN    the operator's token of serve; required on addresses other than loopback
  AGENTCHART_LOG      json: serve writes its log, and a line per request, as JSON
  AGENTCHART_MCP_KEY  secret that seals the questions of mcp (default: a key beside the SQLite file)
  AGENTCHART_DB       SQLite file that holds the runs (default: .agentchart/runs.db), or postgres://… of a database
  AGENTCHART_HOME     folder of credentials.db, the tokens of MCP servers (default: ~/.agentchart)
  AGENTCHART_DB_LISTEN    postgres://… of the same database without a transaction pooler, for its notifications
  OPENAI_API_KEY      API key; other providers use their usual variables
  OPENAI_BASE_URL     API base URL; other providers likewise
  OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME    headers and service name of traces
  NO_COLOR            disable colors
  AGENTCHART_DEBUG    set to 1 to print stack traces

Exit codes:
  0  success: the run finished, or the command was carried out
  1  the run failed or was cancelled, replay, explore or doctor found a problem, or the store is unusable
  2  usage error: including an unknown run or call, an agent or script that does not load, a missing key
  3  the run waits: for an approval, a result or a resolution, or it is paused
  4  refused: already decided, digest mismatch, expired, run ended, or run still in use
  5  incomplete: explore or doctor --prove found nothing that breaks, but did not reach every state or prove
     every rule; or they, or a backtest of rules, were stopped

Ctrl-C cancels the run and waits for it to end. Press it again to exit at once; the run can be resumed.
`;
