/**
 * The command line, built with commander: every command with its arguments, options and help text.
 *
 * `commands/` implements them, one file per command or group of commands; each function takes the parsed arguments and
 * options and returns the exit code. `render/` formats output. The other files in this folder are shared by the
 * commands: opening stores, loading agents, driving a run, and asking for decisions on a terminal.
 */
import { Command, CommanderError } from 'commander';
import { readVersion } from './options.ts';

const RUN = 'run id, or a unique prefix of one';
const LABEL = 'label to find the run by, such as user=7; repeatable';
const CALL = 'id of an open call, listed by `show RUN`';
const AGENT = 'module whose default export is the agent';
const DB =
  'SQLite file that holds the runs, or postgres://… (default: $AGENTCHART_DB, or .agentchart/runs.db)';
const GRACE = 'how long calls in progress may take after SIGTERM or Ctrl-C; the rest is handed over';
const FORK_MODEL = 'a further model for forks of runs, such as openai:gpt-5; repeatable';
const BY = 'name to record as the author (default: the OS user)';

function collect(value: string, before: readonly string[] = []): string[] {
  return [...before, value];
}

/** Adds the options of commands that open a store. */
function reading(command: Command): Command {
  return command
    .option('--db <file>', DB)
    .option('--json', 'print JSON Lines to stdout; messages go to stderr');
}

/** Adds the options of commands that show events. */
function showing(command: Command): Command {
  return reading(command).option('--deltas', 'with --json: include streamed text and progress');
}

/** Adds the options of commands that drive a run; `by: false` for those without an author. */
function driving(command: Command, { by = true }: { by?: boolean } = {}): Command {
  const driven = showing(command).option('--agent <module>', AGENT);
  return by ? driven.option('--by <name>', BY) : driven;
}

/** Makes the action of a command from the function that implements it, which is loaded only when the command runs. */
type Lazily = <Args extends unknown[]>(
  load: () => Promise<(...args: Args) => number | Promise<number>>,
) => (...args: Args) => Promise<void>;

/** Runs one command line and returns its exit code. Prints a failure to stderr instead of throwing it. */
export async function runProgram(args: readonly string[]): Promise<number> {
  let exitCode = 0;
  const program = makeProgram(load => async (...given) => {
    exitCode = await (await load())(...given);
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

function makeProgram(lazily: Lazily): Command {
  const program = new Command('agentchart')
    .usage('COMMAND [options]')
    .description('Run agents that you can inspect, stop, verify and resume.')
    .version(readVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .exitOverride()
    .showHelpAfterError('(use --help for usage)')
    .addHelpText('after', HELP);
  addRunning(program.commandsGroup('Start and resume:'), lazily);
  addServing(program, lazily);
  addDecisions(program.commandsGroup('Decide about open calls:'), lazily);
  addSteering(program.commandsGroup('Control a run:'), lazily);
  addInspecting(program.commandsGroup('Inspect:'), lazily);
  addRemoving(program.commandsGroup('Back up and delete data:'), lazily);
  program.commandsGroup('Help:');
  program
    .command('completion')
    .summary('print a completion script for a shell')
    .description(
      'Print a script that completes commands, options and run ids, for bash, zsh or fish. Load it when the shell starts: source <(agentchart completion bash), the same for zsh, or agentchart completion fish | source.',
    )
    .argument('<shell>', 'bash, zsh or fish')
    .action(lazily(async () => (await import('./commands/completion.ts')).completion));
  program.helpCommand('help [command]', 'show help for a command');
  return program;
}

function addRunning(program: Command, lazily: Lazily): void {
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
    .action(lazily(async () => (await import('./commands/run.ts')).run));
  driving(program.command('resume'))
    .summary('resume a run, or follow it')
    .description('Resume a run whose process ended. If another process is driving it, follow it instead.')
    .argument('<run>', RUN)
    .option('--yes', 'approve every call that needs approval')
    .action(lazily(async () => (await import('./commands/steer.ts')).resume));
  driving(program.command('send'))
    .summary('send a message to a run')
    .description(
      'Send a message that the model reads in its next turn. Calls that wait for approval keep waiting, unless the agent is configured to reject them.',
    )
    .argument('<run>', RUN)
    .argument('<text...>', 'message text')
    .action(lazily(async () => (await import('./commands/steer.ts')).send));
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
    .action(lazily(async () => (await import('./commands/fork.ts')).fork));
  reading(program.command('migrate'))
    .summary('convert a run of an older version')
    .description(
      'Create a new run from one of an older version, using the migrations of its agent and of this release. The old run is not changed. Calls that were running are in doubt in the new run.',
    )
    .argument('<run>', RUN)
    .option('--agent <module>', AGENT)
    .option('--as <id>', 'id of the new run; needed to migrate the same run again')
    .action(lazily(async () => (await import('./commands/migrate.ts')).migrate));
}

function addServing(program: Command, lazily: Lazily): void {
  program
    .command('serve')
    .summary('start the HTTP API and the web page')
    .description(
      'Serve the runs API and its web page, and drive the runs of the given agents. Resumes runs whose process ended.',
    )
    .option('--agent <module>', `${AGENT}; repeatable`, collect)
    .option('--fork-model <model>', FORK_MODEL, collect)
    .option('--config <file>', 'JSON file with the models and MCP servers that /v1/responses offers')
    .option('--host <host>', 'address to listen on; any but a loopback address needs a token', '127.0.0.1')
    .option('--port <port>', 'port to listen on; 0 picks a free one', '4100')
    .option('--db <file>', DB)
    .option('--token <token>', "the operator's token (default: $AGENTCHART_TOKEN, or none)")
    .option('--grace <seconds>', GRACE, '10')
    .option('--no-drive', 'leave the runs to workers: start, show and decide runs, and drive none')
    .option('--log <format>', 'text, or json for one line per request (default: $AGENTCHART_LOG, or text)')
    .option('--config-schema', 'print the JSON Schema of the configuration file and exit')
    .action(lazily(async () => (await import('./commands/serve.ts')).serve));
  program
    .command('worker')
    .summary('drive the runs of a store')
    .description(
      'Drive the runs of the given agents that no other process drives: new and decided runs of `serve --no-drive`, runs whose process ended, and runs whose deadline has come. Any number of workers share a store. SIGTERM hands the runs over to other workers.',
    )
    .option('--agent <module>', `${AGENT}; repeatable`, collect)
    .option('--fork-model <model>', FORK_MODEL, collect)
    .option('--slots <number>', 'how many runs to drive at once', '32')
    .option('--db <file>', DB)
    .option('--grace <seconds>', GRACE, '10')
    .option('--config <file>', 'also drive the runs of /v1 requests, with this configuration of `serve`')
    .option('--port <port>', 'serve /healthz, /readyz and /metrics on this port; 0 picks a free one')
    .option('--host <host>', 'address of that port; any but a loopback address needs a token', '127.0.0.1')
    .option('--token <token>', 'the token for /metrics (default: $AGENTCHART_TOKEN, or none)')
    .option('--log <format>', 'text, or json for one line per message (default: $AGENTCHART_LOG, or text)')
    .action(lazily(async () => (await import('./commands/worker.ts')).work));
  program
    .command('mcp')
    .summary('offer agents as MCP tools')
    .description(
      'Offer each agent as a tool of an MCP server, on stdin and stdout or over HTTP. Approvals and questions reach the client as forms, or as tasks. Resumes runs whose process ended.',
    )
    .option('--agent <module>', `${AGENT}; repeatable`, collect)
    .option('--port <port>', 'serve Streamable HTTP at /mcp on this port instead; 0 picks a free one')
    .option('--host <host>', 'address to listen on; any but a loopback address needs a token', '127.0.0.1')
    .option('--db <file>', DB)
    .option('--token <token>', 'the token of HTTP clients (default: $AGENTCHART_TOKEN, or none)')
    .action(lazily(async () => (await import('./commands/mcp.ts')).mcp));
}

function addDecisions(program: Command, lazily: Lazily): void {
  driving(program.command('approve'))
    .summary('approve a call')
    .description('Approve a call that waits for approval, and resume the run.')
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .option('--input <json>', 'run the call with this input instead of the proposed one')
    .option('--digest <digest>', 'approve only if the call has this digest')
    .option('--sticky', 'also approve later calls of the same tool in this run')
    .action(lazily(async () => (await import('./commands/decide.ts')).approve));
  driving(program.command('reject'))
    .summary('reject a call')
    .description('Reject a call that waits for approval, and resume the run. The model reads the rejection.')
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .option('--reason <text>', 'reason to give to the model')
    .action(lazily(async () => (await import('./commands/decide.ts')).reject));
  driving(program.command('answer'))
    .summary('supply the result of a call')
    .description(
      'Supply the result of a client tool call, or of a call that waits for approval, which then does not run. Resumes the run.',
    )
    .argument('<run>', RUN)
    .argument('<call>', CALL)
    .requiredOption('--output <json>', 'result of the call')
    .action(lazily(async () => (await import('./commands/decide.ts')).answer));
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
    .action(lazily(async () => (await import('./commands/decide.ts')).resolve));
}

function addSteering(program: Command, lazily: Lazily): void {
  showing(program.command('pause'))
    .summary('pause a run')
    .description(
      'Pause a run before its next model call or batch of tools. Returns at once; work in progress completes.',
    )
    .argument('<run>', RUN)
    .action(lazily(async () => (await import('./commands/steer.ts')).pause));
  driving(program.command('unpause'), { by: false })
    .summary('unpause a run')
    .description('Unpause a run and drive it.')
    .argument('<run>', RUN)
    .action(lazily(async () => (await import('./commands/steer.ts')).unpause));
  driving(program.command('step'), { by: false })
    .summary('run one step, then pause')
    .description('Run one model call or one batch of tools, then pause.')
    .argument('<run>', RUN)
    .action(lazily(async () => (await import('./commands/steer.ts')).step));
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
    .action(lazily(async () => (await import('./commands/break.ts')).setBreakpoints));
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
    .action(lazily(async () => (await import('./commands/edit.ts')).edit));
  showing(program.command('cancel'))
    .summary('cancel a run')
    .description('Cancel a run and abort its model and tool calls.')
    .argument('<run>', RUN)
    .option('--reason <text>', 'reason to record in the journal')
    .option('--by <name>', BY)
    .action(lazily(async () => (await import('./commands/steer.ts')).cancel));
}

function addInspecting(program: Command, lazily: Lazily): void {
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
    .action(lazily(async () => (await import('./commands/runs.ts')).runs));
  reading(program.command('show'))
    .summary('show a run')
    .description('Show the state of a run, its conversation, and what it waits for.')
    .argument('<run>', RUN)
    .option('--events', 'list the journal instead')
    .option('--result <call>', 'print the full result of this call as JSON instead')
    .option('--agent <module>', 'agent module to compare the run with: lists version differences')
    .action(lazily(async () => (await import('./commands/show.ts')).show));
  reading(program.command('export'))
    .summary('export a run to a file')
    .description('Export a run as JSON: its journal, its state hash, and the runs that it continues.')
    .argument('<run>', RUN)
    .option('--test', 'export a vitest file that replays the run without API keys')
    .option('--out <file>', 'file to write (default: stdout)')
    .action(lazily(async () => (await import('./commands/export.ts')).exportToFile));
  reading(program.command('replay'))
    .summary('check that a journal reproduces the state')
    .description(
      'Fold the journal of a run again and compare the states. Executes nothing and writes nothing. Exits with 1 if a state differs.',
    )
    .argument('<run>', `${RUN}; or a file written by \`export\``)
    .option('--until <seq>', 'stop after this entry and show the state of the run there')
    .action(lazily(async () => (await import('./commands/replay.ts')).replay));
  reading(program.command('inspect'))
    .summary('open a run in the debugger, read-only')
    .description(
      'Serve the web page for one run, on this machine only, until you stop it. Executes nothing and writes nothing.',
    )
    .argument('<run>', `${RUN}; or a file written by \`export\``)
    .option('--port <port>', 'port to listen on; 0 picks a free one', '0')
    .action(lazily(async () => (await import('./commands/inspect.ts')).inspect));
  reading(program.command('doctor'))
    .summary('list the runs that a deploy would strand')
    .description(
      'List the unfinished runs that workers of this release, with the given agents, would not drive: each with the reason and what to do. Also list runs in doubt and runs whose process is gone, and check the database. Reads the list of runs, not their journals. Changes nothing. Exits with 1 if a run would be stranded.',
    )
    .option('--agent <module>', `${AGENT}; repeatable; without it, agents are not compared`, collect)
    .action(lazily(async () => (await import('./commands/doctor.ts')).doctor));
  reading(program.command('traces'))
    .summary("send a run's spans to OpenTelemetry")
    .description(
      "Make the spans of a run and of its sub-agents' runs from their journals, and post them to an OTLP receiver. Sending them again changes nothing: the ids are the same. Without --otlp, print them.",
    )
    .argument('<run>', RUN)
    .option('--otlp <url>', 'receiver to post to, such as http://localhost:4318, at its /v1/traces')
    .option('--content', 'include messages, arguments and results')
    .action(lazily(async () => (await import('./commands/traces.ts')).traces));
  reading(program.command('explore'))
    .summary('check every path of an agent, or what may still happen to a run')
    .description(
      "Walk every path through the chart with the agent's tools, approvals and limits, and check the invariants at every step. With a run, start from its current state, and also print the states that it can reach, who has to approve, and what it may still spend. Executes nothing. Exits with 1 if an invariant is violated, and with 5 if none is but not every state was reached.",
    )
    .argument('[run]', `${RUN}; without it, from the start`)
    .option('--agent <module>', `${AGENT}; for a run, the module that started it by default`)
    .option('--at <seq>', "explore from this entry of the run (default: the run's last)")
    .option('--max-states <number>', 'stop after this many states (default: 12000)')
    .option('--connect', "start the agent's tool servers to list their tools; no tool is called")
    .option('--save-test <file>', 'write a vitest file with a test for each violated invariant')
    .action(lazily(async () => (await import('./commands/explore.ts')).exploreAgent));
  program
    .command('diagram')
    .summary('print the chart')
    .description('Print the statechart that every run follows. Give exactly one format.')
    .option('--mermaid', 'Mermaid state diagram')
    .option('--json', 'JSON: states and edges')
    .option('--svg', 'SVG image with light and dark themes')
    .action(lazily(async () => (await import('./commands/diagram.ts')).diagram));
}

function addRemoving(program: Command, lazily: Lazily): void {
  reading(program.command('delete'))
    .summary('delete a run')
    .description(
      'Delete a run with its journal, its large results and the runs of its sub-agents. Refused while a process drives the run or another run continues it.',
    )
    .argument('<run>', RUN)
    .option('--cascade', 'also delete runs that continue it or wait for one of its sub-agents')
    .action(lazily(async () => (await import('./commands/data.ts')).deleteRun));
  reading(program.command('prune'))
    .summary('delete runs that ended before a time')
    .description(
      'Delete the runs that ended before a time, with the runs of their sub-agents. Spares runs that a process drives or that a later run continues.',
    )
    .requiredOption('--before <time>', 'date or time, such as 2026-11-01 or 2026-11-01T08:00:00Z')
    .option('--status <status>', 'only these: finished, failed or cancelled')
    .option('--label <name=value>', 'only runs with this label; repeatable', collect)
    .option('--dry-run', 'delete nothing; print how many runs would be deleted')
    .action(lazily(async () => (await import('./commands/data.ts')).prune));
  reading(program.command('backup'))
    .summary('copy the store to a new file')
    .description(
      'Copy all runs to a new file while other processes keep using the store. The file is a complete store: open it with --db.',
    )
    .argument('<file>', 'file to create; refused if it exists')
    .action(lazily(async () => (await import('./commands/data.ts')).backUp));
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
    .action(lazily(async () => (await import('./commands/data.ts')).redact));
}

const HELP = `
Example:
  $ export AGENTCHART_MODEL=openai:gpt-5
  $ agentchart run --agent refund.ts "Refund order A-1001"    # a call needs approval: exits with 3
  $ agentchart show run_1f                                    # state, conversation, open calls
  $ agentchart approve run_1f call_7 --digest 5c…             # approve the call and drive the run
  $ agentchart resume run_1f                                  # resume a run whose process was killed
  $ agentchart serve --agent refund.ts                        # the same in a browser and over HTTP
  $ agentchart mcp --agent refund.ts                          # the agent as a tool of MCP clients

An agent module has an agent as its default export: export default createAgent({ name, instructions, tools }).
Without --agent, run uses an assistant without tools. A run remembers its agent module and model.

Environment:
  AGENTCHART_MODEL    PROVIDER:MODEL, such as openai:gpt-5, or scripted:FILE; overrides the agent's model
  AGENTCHART_TOKEN    the operator's token of serve; required on addresses other than loopback
  AGENTCHART_LOG      json: serve writes its log, and a line per request, as JSON
  AGENTCHART_MCP_KEY  secret that seals the questions of mcp (default: a key beside the SQLite file)
  AGENTCHART_DB       SQLite file that holds the runs (default: .agentchart/runs.db), or postgres://… of a database
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
  5  incomplete: explore found no violated invariant, but did not reach every state

Ctrl-C cancels the run and waits for it to end. Press it again to exit at once; the run can be resumed.
`;
