/**
 * The commands of the command line as data: their arguments and options, and what `--help` says about them. `commands/`
 * implements them, with the types of their arguments and options from here; `program.ts` builds the program from both.
 */
import type { Command } from 'commander';
import { HELD_ACTIONS } from '../protocol/debugger/breakpoint.ts';
import { parseLabels } from '../protocol/listing/label.ts';
import { LIST_SORTS } from '../protocol/store.ts';
import { readFailOn } from '../regress/fail-on.ts';
import {
  type NumberRule,
  parseJson,
  readEntryNumber,
  readName,
  readNumber,
  readOneOf,
  readTime,
} from './options.ts';

/** `read` makes the value that the command gets of the text; it throws `input-invalid`, which names the option. */
export type DeclaredOption = {
  help: string;
  read?(given: string & string[], option: string): unknown;
  /** What `read` gets without the option. */
  preset?: string;
  /** The option may be repeated; `read` gets all texts. */
  isMany?: true;
  isRequired?: true;
};

type Parameters = Readonly<Record<`--${string}` | `<${string}` | `[${string}`, string | DeclaredOption>>;

/** `heading`: the heading of this command and those after it in `--help`. */
export type DeclaredCommand = Parameters & { heading?: string; summary: string; description: string };

const read = <Value, Given = string>(help: string, reader: (given: Given, option: string) => Value) => ({
  help,
  read: reader,
});
const json = (help: string) => read(help, parseJson);
const entry = (help: string) => read(help, readEntryNumber);
const time = (help: string) => read(help, readTime);
const number = (help: string, rule?: NumberRule) =>
  read(help, (text: string, option) => readNumber(text, option, rule));
const many = (help: string) => ({ ...read(help, (texts: string[]) => texts), isMany: true }) as const;
const labels = (help: string) => ({ ...read(help, parseLabels), isMany: true }) as const;
const required = <Declared extends DeclaredOption>(option: Declared) =>
  ({ ...option, isRequired: true }) as const;
const preset = <Declared extends DeclaredOption>(text: string, option: Declared) => ({
  ...option,
  preset: text,
});
const address = (help: string) =>
  preset(
    '127.0.0.1',
    read(help, (text: string) => text),
  );
const oneOf = <const Word extends string>(words: readonly Word[], help: string) =>
  read(help, (text: string, option) => readOneOf(words, text, option));

const WHOLE = { isWhole: true, from: 1, to: Number.MAX_SAFE_INTEGER };
const PORT = {
  what: 'a number from 0 to 65535',
  isWhole: true,
  from: 0,
  to: 65_535,
  advice: ' 0 picks a free port.',
};

/** Seconds, read as ms. Process managers kill after half a minute. */
const GRACE = { what: 'a number of seconds from 0 to 3600', from: 0, to: 3_600 };
const grace = preset(
  '10',
  read(
    'how long calls in progress may take after SIGTERM or Ctrl-C; the rest is handed over',
    (text: string, option) => readNumber(text, option, GRACE) * 1_000,
  ),
);

const STATUSES = ['running', 'waiting', 'finished', 'failed', 'cancelled'] as const;
const RUN = 'run id, or a unique prefix of one';
const CALL = 'id of an open call, listed by `show RUN`';
const AGENT = 'module whose default export is the agent';
const DB =
  'SQLite file that holds the runs, or postgres://… (default: $AGENTCHART_DB, or .agentchart/runs.db)';
const FORK_MODEL = 'a further model for forks of runs, such as openai:gpt-5; repeatable';
const BY = read('name to record as the author (default: the OS user)', readName);

const GROUP = 'group in whose name the author decides, recorded as asserted; repeatable';

const STORE = {
  '--db <file>': DB,
  '--json': 'print JSON Lines to stdout; messages go to stderr',
} as const;
const SHOWING = { ...STORE, '--deltas': 'with --json: include streamed text and progress' } as const;
const DRIVING_UNNAMED = { ...SHOWING, '--agent <module>': AGENT } as const;
const DRIVING = { ...DRIVING_UNNAMED, '--by <name>': BY, '--group <name>': many(GROUP) } as const;
const SIGNING_IN = {
  '<server>': 'name of the server in the agent: `name` of mcp(), or its URL',
  '--agent <module>': required(read(AGENT, (text: string) => text)),
  '--json': STORE['--json'],
} as const;
const DRIVING_RUN = { '<run>': RUN, ...DRIVING } as const;
const DECIDING = { '<run>': RUN, '<call>': CALL, ...DRIVING } as const;

export const COMMANDS = {
  run: {
    heading: 'Start and resume:',
    summary: 'start a run',
    description:
      'Start a run and drive it until it ends or has to wait. Reads the input from stdin if no text is given.',
    '[input...]': 'task for the agent',
    ...DRIVING,
    '--yes': 'approve every call that needs approval',
    '--no-stream': 'do not stream model responses',
    '--label <name=value>': labels('label to find the run by, such as user=7; repeatable'),
    '--title <text>': 'title of the run in lists (default: the first line of the input)',
    '--continues <run>': 'start from the transcript of an ended run; uses its agent by default',
    '--thread <id>':
      'conversation to continue, which has exactly the labels: continue its latest run, or send the input to it if it has not ended; uses its agent by default',
    '--context <json>': json('run context, for an agent that requires one'),
    '--prompt <name>':
      "start with a prompt of one of the agent's MCP servers, or SERVER/NAME; the input, if any, follows it",
    '--arg <name=value>': many('argument of the prompt; repeatable'),
  },
  resume: {
    summary: 'resume a run, or follow it',
    description: 'Resume a run whose process ended. If another process is driving it, follow it instead.',
    ...DRIVING_RUN,
    '--yes': 'approve every call that needs approval',
  },
  send: {
    summary: 'send a message to a run',
    description:
      'Send a message that the model reads in its next turn. Calls that wait for approval keep waiting, unless the agent is configured to reject them.',
    '<run>': RUN,
    '<text...>': 'message text',
    ...DRIVING,
  },
  fork: {
    summary: 'start a new run from an entry of another',
    description:
      'Start a new run from a copy of another journal up to an entry, and drive it. Calls that were running at that entry are in doubt in the new run.',
    ...DRIVING_RUN,
    '--at <seq>': required(entry('last entry to copy; `show RUN --events` lists the entries')),
    '--message <text>': 'message to send to the new run first',
    '--paused': 'rest after that entry, before anything follows from it',
    '--replay-tools': 'take the results of equal calls from the original; execute no tool',
    '--model <model>': 'another model, such as openai:gpt-5 or scripted:FILE',
    '--set-param <name=json>': many('a parameter for the next turns; repeatable'),
    '--approve <call>': 'approve this call',
    '--reject <call>': 'reject this call',
    '--result <call>': 'give this call the result in --output',
    '--input <json>': json('the edited input, for --approve'),
    '--output <json>': json('the result, for --result'),
    '--text <text>': "another text for the latest turn's reply",
    '--no-drive': 'create the run without driving it',
  },
  migrate: {
    summary: 'convert a run of an older version',
    description:
      'Create a new run from one of an older version, using the migrations of its agent and of this release. The old run is not changed. Calls that were running are in doubt in the new run.',
    '<run>': RUN,
    ...STORE,
    '--agent <module>': AGENT,
    '--as <id>': 'id of the new run; needed to migrate the same run again',
  },
  serve: {
    summary: 'start the HTTP API and the web page',
    description:
      'Serve the runs API and its web page, and drive the runs of the given agents. Resumes runs whose process ended.',
    '--agent <module>': many(`${AGENT}; repeatable`),
    '--fork-model <model>': many(FORK_MODEL),
    '--config <file>': 'JSON file with the models and MCP servers that /v1/responses offers',
    '--host <host>': address('address to listen on; any but a loopback address needs a token'),
    '--port <port>': preset('4100', number('port to listen on; 0 picks a free one', PORT)),
    '--db <file>': DB,
    '--token <token>': "the operator's token (default: $AGENTCHART_TOKEN, or none)",
    '--grace <seconds>': grace,
    '--no-drive': 'leave the runs to workers: start, show and decide runs, and drive none',
    '--log <format>': 'text, or json for one line per request (default: $AGENTCHART_LOG, or text)',
    '--config-schema': 'print the JSON Schema of the configuration file and exit',
  },
  code: {
    summary: 'start Codex or Claude Code on any model',
    description:
      'Start an installed coding agent against a gateway of its own on this machine: every request is a run, which the page shows. The settings of the agent are used and not changed; it needs no sign-in. Its arguments follow --, as in: agentchart code claude --model openai:gpt-5 -- -p "Fix the tests". Ends with its exit code.',
    '<client>': 'codex or claude',
    '[args...]': 'arguments for the agent, after --',
    '--model <model>':
      "model for the agent, such as openai:gpt-5, or an alias of the configuration (default: $AGENTCHART_MODEL, or the agent's own with its provider's API key)",
    '--port <port>': preset('0', number('port of the gateway and its page; 0 picks a free one', PORT)),
    '--db <file>': DB,
    '--config <file>': 'JSON file with models, MCP servers and prices, as for `serve`',
  },
  worker: {
    summary: 'drive the runs of a store',
    description:
      'Drive the runs of the given agents that no other process drives: new and decided runs of `serve --no-drive`, runs whose process ended, and runs whose deadline has come. Any number of workers share a store. SIGTERM hands the runs over to other workers.',
    '--agent <module>': many(`${AGENT}; repeatable`),
    '--fork-model <model>': many(FORK_MODEL),
    '--slots <number>': preset(
      '32',
      number('how many runs to drive at once', {
        ...WHOLE,
        what: 'a whole number from 1 to 10000',
        to: 10_000,
      }),
    ),
    '--db <file>': DB,
    '--grace <seconds>': grace,
    '--config <file>': 'also drive the runs of /v1 requests, with this configuration of `serve`',
    '--port <port>': number('serve /healthz, /readyz and /metrics on this port; 0 picks a free one', PORT),
    '--host <host>': address('address of that port; any but a loopback address needs a token'),
    '--token <token>': 'the token for /metrics (default: $AGENTCHART_TOKEN, or none)',
    '--log <format>': 'text, or json for one line per message (default: $AGENTCHART_LOG, or text)',
  },
  mcp: {
    summary: 'offer agents as MCP tools',
    description:
      'Offer each agent as a tool of an MCP server, on stdin and stdout or over HTTP. Approvals and questions reach the client as forms, or as tasks. Resumes runs whose process ended.',
    '--agent <module>': many(`${AGENT}; repeatable`),
    '--port <port>': number('serve Streamable HTTP at /mcp on this port instead; 0 picks a free one', PORT),
    '--host <host>': address('address to listen on; any but a loopback address needs a token'),
    '--db <file>': DB,
    '--token <token>': 'the token of HTTP clients (default: $AGENTCHART_TOKEN, or none)',
  },
  'mcp login': {
    summary: 'sign in at an MCP server that an agent uses',
    description:
      'Sign in at the authorization server of an MCP server, in a browser, so that the agent can use its tools. The tokens are kept where mcp() finds them: in credentials.db of $AGENTCHART_HOME or ~/.agentchart, unless the agent says otherwise. Waits 10 minutes for the browser. Runs that wait for the sign-in then continue.',
    ...SIGNING_IN,
    '--db <file>': DB,
    '--no-browser': 'only print the URL; on a terminal, the browser is opened otherwise',
  },
  'mcp logout': {
    summary: 'forget the tokens for an MCP server',
    description:
      'Delete the tokens for an MCP server on this machine. They stay valid at the authorization server until they expire or its pages end the access.',
    ...SIGNING_IN,
  },
  approve: {
    heading: 'Decide about open calls:',
    summary: 'approve a call or an answer',
    description: 'Approve a call that waits for approval, or an answer under review, and resume the run.',
    ...DECIDING,
    '--input <json>': json('run the call with this input instead of the proposed one'),
    '--answer <text>': 'give this text instead of the answer under review',
    '--answer-json <json>': json('the same as a value of the output schema'),
    '--digest <digest>': 'approve only if the call or answer has this digest',
    '--sticky': 'also approve later calls of the same tool in this run',
  },
  reject: {
    summary: 'reject a call, or send an answer back',
    description:
      'Reject a call that waits for approval, or send back an answer under review, and resume the run. The model reads the reason.',
    ...DECIDING,
    '--reason <text>': 'reason to give to the model',
  },
  answer: {
    summary: 'supply the result of a call, or answer what its tool asks',
    description:
      'Supply the result of a client tool call, or of a call that waits for approval, which then does not run; or answer the questions of a tool. Give exactly one of --output and --answers. Resumes the run.',
    ...DECIDING,
    '--output <json>': json('result of the call'),
    '--answers <json>': json('a value for each question, by its key; those without one stay open'),
    '--digest <digest>': 'answer only if the call, or what its tool asks, has this digest',
  },
  resolve: {
    summary: 'resolve a call in doubt',
    description:
      'Resolve a call in doubt: one that was started and whose outcome is unknown. Give exactly one of --retry, --happened and --failed.',
    ...DECIDING,
    '--retry': 'the call did not happen: run it again',
    '--force': 'with --retry: run it even if an earlier attempt may still take effect',
    '--happened <json>': json('the call happened, with this result'),
    '--failed <text>': 'the call failed, for this reason (shown to the model)',
  },
  pause: {
    heading: 'Control a run:',
    summary: 'pause a run',
    description:
      'Pause a run before its next model call or batch of tools. Returns at once; work in progress completes.',
    '<run>': RUN,
    ...SHOWING,
  },
  unpause: {
    summary: 'unpause a run',
    description: 'Unpause a run and drive it.',
    '<run>': RUN,
    ...DRIVING_UNNAMED,
  },
  step: {
    summary: 'run one step, then pause',
    description: 'Run one model call or one batch of tools, then pause.',
    '<run>': RUN,
    ...DRIVING_UNNAMED,
  },
  break: {
    summary: 'hold a run before an action',
    description:
      "Set a breakpoint: the run pauses before an action that matches all of --before, --tool, --where, --turn and --cost-over. Without options, list the run's breakpoints.",
    '<run>': RUN,
    ...STORE,
    '--before <action>': oneOf(HELD_ACTIONS, 'callModel, executeTools, interruptForApproval, finish, …'),
    '--tool <name>': 'one of the calls is of this tool',
    '--where <condition>': "the input of such a call, such as 'input.cents>10000'",
    '--turn <number>': number('the turn of the action; a model call begins a turn'),
    '--cost-over <number>': number('the run has cost more than this'),
    '--once': 'remove the breakpoint when the run continues from it',
    '--id <id>': 'name of the breakpoint, replaces one of the same name (default: b1, b2, …)',
    '--remove <id>': many('remove this breakpoint; repeatable'),
    '--clear': 'remove all breakpoints',
    '--by <name>': BY,
  },
  edit: {
    summary: "edit the model's reply, or the input of a call",
    description:
      'Edit the latest reply of a run at rest, before its calls start. With a call, edit only the input of that call. Give options, or JSON on stdin: a reply is { "text", "calls": [{ "callId", "name", "input" }] }. A call without callId is new; a call that is not listed is dropped. A paused run stays paused.',
    '<run>': RUN,
    '[call]': CALL,
    ...DRIVING,
    '--show': 'print the reply, or the input of the call, as JSON to edit',
    '--text <text>': 'replace the text of the reply',
    '--calls <json>': json('replace the calls of the reply'),
    '--turn <number>': number('edit only if this is the latest turn'),
    '--input <json>': json('replace the input of the call'),
    '--digest <digest>': 'edit only if the call has this digest',
  },
  cancel: {
    summary: 'cancel a run',
    description: 'Cancel a run and abort its model and tool calls.',
    '<run>': RUN,
    ...SHOWING,
    '--reason <text>': 'reason to record in the journal',
    '--by <name>': BY,
  },
  runs: {
    heading: 'Inspect:',
    summary: 'list runs',
    description: 'List runs, newest first, with what they wait for.',
    ...STORE,
    '--status <status>': oneOf(
      STATUSES,
      'only runs that are running, waiting, finished, failed or cancelled',
    ),
    '--waiting': 'only runs that wait; the same as --status waiting',
    '--agent <name>': 'only runs of this agent',
    '--label <name=value>': labels('only runs with this label; repeatable'),
    '--text <text>': 'only runs with these words in ids, titles, labels, messages, inputs, answers or errors',
    '--since <time>': time(
      'only runs started at this time or later, such as 2026-11-22, 2026-11-22T08:00Z or 30d (30 days ago)',
    ),
    '--before <time>': time('only runs started before this time'),
    '--sort <name>': oneOf(
      LIST_SORTS,
      'what to sort by, highest or newest first: created (default), updated, title, agent, status, worked (time), cost or tokens',
    ),
    '--totals': 'add what the runs that match have spent together',
    '--folded': 'no runs of sub-agents, and of each thread or session only the newest run',
    '--limit <number>': preset(
      '50',
      number('maximum number of runs to list, up to 1000', {
        ...WHOLE,
        what: 'a positive integer up to 1000',
        to: 1_000,
      }),
    ),
    '--wide': 'do not fit the list to the terminal: whole ids, titles and names',
    '--cursor <cursor>': 'continue a list where its page ended; needs the same filters',
  },
  show: {
    summary: 'show a run',
    description:
      'Show the state of a run, its conversation, where its requests broke the prefix and what that cost, and what it waits for.',
    '<run>': RUN,
    ...STORE,
    '--events': 'list the journal instead',
    '--at <seq>': entry('show this entry instead, with its calls and the state after it'),
    '--result <call>': 'print the full result of this call as JSON instead',
    '--agent <module>': 'agent module to compare the run with: lists version differences',
  },
  watch: {
    summary: 'show runs and inbox live, and decide',
    description:
      'Show the runs and what waits for a decision, live, on the whole terminal. `a` twice, or `a` and Enter, approves; `r` rejects with a reason; `e` asks for answers and results; Enter opens, `/` filters, `q` quits. A run that is decided here and that no other process drives is resumed. Without a terminal, or with --json, print a line for each change until it is stopped, and read no keys.',
    ...STORE,
    '--label <name=value>': labels('only runs with this label; repeatable'),
    '--agent <module>': `for the runs that are resumed here: ${AGENT} (default: the one that started the run)`,
    '--no-drive': 'leave the runs to other processes: decide, and resume none',
    '--by <name>': BY,
    '--group <name>': many(GROUP),
  },
  threads: {
    summary: 'list conversations',
    description:
      'List threads by their latest runs, newest first: their ids and labels, and how their latest run stands.',
    ...STORE,
    '--label <name=value>': labels('only threads with this label; repeatable'),
    '--agent <name>': 'only threads whose latest run is of this agent',
    '--text <text>': 'only threads with a run that has these words',
    '--limit <number>': preset(
      '50',
      number('maximum number of threads to list, up to 1000', {
        ...WHOLE,
        what: 'a positive integer up to 1000',
        to: 1_000,
      }),
    ),
    '--cursor <cursor>': 'the next page, as named at the end of the page before',
  },
  thread: {
    summary: 'show a conversation',
    description: 'Show a thread: its messages, its runs in their order, and what they spent.',
    '<thread>': 'id of the thread',
    ...STORE,
    '--label <name=value>': labels('label of the thread, if several have the id; repeatable'),
  },
  notes: {
    summary: 'list what models have noted under a label',
    description:
      'List what models have noted under a label with `notes()`, with the size of each text, or print one of them. A run keeps them, and the list ends with its id: `delete` deletes it with all that was ever noted.',
    ...STORE,
    '--label <name=value>': required(labels('whose notes, such as user=7')),
    '--path <path>': 'print this note, such as /memories/preferences.md',
  },
  export: {
    summary: 'export a run to a file',
    description: 'Export a run as JSON: its journal, its state hash, and the runs that it continues.',
    '<run>': RUN,
    ...STORE,
    '--test': 'export a vitest file that replays the run on the code of its agent, without API keys',
    '--agent <module>': read(
      `with --test: ${AGENT} (default: the one that started the run)`,
      (text: string) => text,
    ),
    '--out <file>': 'file to write (default: stdout)',
  },
  replay: {
    summary: 'check that a journal reproduces the state',
    description:
      'Fold the journal of a run again and compare the states. Executes nothing and writes nothing. Exits with 1 if a state differs.',
    '<run>': `${RUN}; or a file written by \`export\``,
    ...STORE,
    '--until <seq>': entry('stop after this entry and show the state of the run there'),
  },
  inspect: {
    summary: 'open a run in the debugger, read-only',
    description:
      'Serve the web page for one run, on this machine only, until you stop it. Executes nothing and writes nothing.',
    '<run>': `${RUN}; or a file written by \`export\``,
    ...STORE,
    '--port <port>': preset('0', number('port to listen on; 0 picks a free one', PORT)),
  },
  doctor: {
    summary: 'list the runs that a deploy would strand',
    description:
      'List the unfinished runs that workers of this release, with the given agents, would not drive: each with the reason and what to do. Also list runs in doubt and runs whose process is gone, and check the database. Reads the list of runs, not their journals. Changes nothing. Exits with 1 if a run would be stranded. With --prove, read the journals too, walk what models, tools and decisions can do from where each run stands with the given agents, and print for each group of runs that stand alike whether it continues, is migrated or stops, with the shortest path to what stops it. Executes nothing. It then also exits with 1 if a run stops, and with 5 if none does but not everything was walked, also after Ctrl-C.',
    ...STORE,
    '--agent <module>': many(`${AGENT}; repeatable; without it, agents are not compared`),
    '--prove': 'explore every run that no process drives, from where it stands, with these agents',
    '--max-states <number>': number(
      'with --prove: walk at most this many states for a group (default: 10000)',
      {
        ...WHOLE,
        what: 'a positive integer',
      },
    ),
    '--connect': "with --prove: start the agents' tool servers to list their tools; no tool is called",
  },
  traces: {
    summary: "send a run's spans to OpenTelemetry",
    description:
      "Make the spans of a run and of its sub-agents' runs from their journals, and post them to an OTLP receiver. Sending them again changes nothing: the ids are the same. Without --otlp, print them.",
    '<run>': RUN,
    ...STORE,
    '--otlp <url>': 'receiver to post to, such as http://localhost:4318, at its /v1/traces',
    '--content': 'include messages, arguments and results',
  },
  explore: {
    summary: 'check every path of an agent, or what may still happen to a run',
    description:
      "Walk every path through the chart with the agent's tools, approvals and limits, and check the invariants and rules at every step. With a run, start from its current state, and also print the states that it can reach, who has to approve, and what it may still spend. Executes nothing. Exits with 1 if an invariant or a rule is broken, and with 5 if none is but a rule is not proved, or not every state was reached.",
    '[run]': `${RUN}; without it, from the start`,
    ...STORE,
    '--agent <module>': `${AGENT}; for a run, the module that started it by default`,
    '--at <seq>': entry("explore from this entry of the run (default: the run's last)"),
    '--never <rule>': many(
      "what may never start: 'TOOL|#TAG [after TOOL|#TAG] [unless approved [by GROUP]]'; repeatable",
    ),
    '--max-states <number>': number('stop after this many states of all walks together (default: 40000)', {
      ...WHOLE,
      what: 'a positive integer',
    }),
    '--connect': "start the agent's tool servers to list their tools; no tool is called",
    '--save-test <file>': 'write a vitest file with a test for each broken invariant or rule',
  },
  rules: {
    summary: "list an agent's rules, or try them on stored runs",
    description:
      'List the rules of an agent and its sub-agents in words, with what they name that the agent does not have. With --backtest, judge the calls of stored runs by them and by the approval functions: how often each would have asked, blocked or stopped, whom it would have asked, how often the run did the same, and what cannot be judged. Reads journals, calls these functions, and executes nothing else. Ctrl-C ends it with what was found so far; it then exits with 5.',
    '[runs...]': 'with --backtest: only these runs, by id or a unique prefix of one',
    ...STORE,
    '--agent <module>': required(read(AGENT, (text: string) => text)),
    '--backtest': 'try the rules on stored runs of the agent and its sub-agents',
    '--since <time>': time(
      'only runs started at this time or later, such as 2026-11-22 or 30d (30 days ago)',
    ),
    '--before <time>': time('only runs started before this time'),
    '--label <name=value>': labels('only runs with this label; repeatable'),
    '--status <status>': oneOf(
      STATUSES,
      'only runs that are running, waiting, finished, failed or cancelled',
    ),
    '--cases <number>': preset(
      '3',
      number('how many cases to print of each rule, up to 10000', {
        isWhole: true,
        from: 0,
        what: 'a whole number up to 10000',
        to: 10_000,
      }),
    ),
    '--connect': "start the agents' tool servers to list their tools; no tool is called",
  },
  regress: {
    summary: 'play recorded runs on the agent as it is now, and compare',
    description:
      "Play recorded runs of an agent on the agent as it is now, or with another model, and report what it does otherwise: which tools it calls with what, what people are asked, how the runs end, and what they cost. Nothing is executed: calls get their recorded results, and what the recording does not have ends that run. The agent's model is called. The recorded runs are only read; the played ones are written to a file of their own, where the command continues after Ctrl-C or a crash. Exits with 1 if a run has other effects, or if one of --fail-on holds.",
    '[runs...]': 'only these runs: ids, unique prefixes of ids, or files written by `export`',
    ...STORE,
    '--agent <module>': required(read(AGENT, (text: string) => text)),
    '--last <number>': number('how many runs at most, the newest first (default: 200)', WHOLE),
    '--since <time>': time(
      'only runs started at this time or later, such as 2026-11-22 or 30d (30 days ago)',
    ),
    '--label <name=value>': labels('only runs with this label; repeatable'),
    '--status <status>': oneOf(STATUSES, 'only runs with this status (default: all but running ones)'),
    '--model <model>': read(
      "instead of the agent's model, such as openai:gpt-5-mini or anthropic:claude-sonnet-4-5",
      (text: string) => text,
    ),
    '--samples <number>': preset('1', number('how often each run is played', { ...WHOLE, to: 100 })),
    '--baseline <module>': read(
      'an earlier version of the agent, such as in a checkout of main: what it does otherwise too is noise',
      (text: string) => text,
    ),
    '--cost <amount>': number('start no more runs once the played ones have cost this much'),
    '--concurrency <number>': preset(
      '4',
      number('how many runs are played at the same time', { ...WHOLE, to: 64 }),
    ),
    '--execute <tool>': many(
      'a tool without side effects that is executed where the recording has no result; repeatable',
    ),
    '--offline': 'do not ask tool servers for their tools; runs that called one are undecidable',
    '--out <file>': read(
      'file for the played runs (default: regress-NAME.db beside the runs; another NAME for another agent or model)',
      (text: string) => text,
    ),
    '--markdown': 'print the report as Markdown, for a pull request',
    '--junit': 'print the report as JUnit XML',
    '--fail-on <list>': read(
      'exit with 1 only for these: new-calls, new-once-calls, missing-calls, other-effects, undecidable, cost>10%, turns>10%, tokens>10%; separated by commas',
      readFailOn,
    ),
  },
  diagram: {
    summary: 'print the chart',
    description: 'Print the statechart that every run follows. Give exactly one format.',
    '--mermaid': 'Mermaid state diagram',
    '--json': 'JSON: states and edges',
    '--svg': 'SVG image with light and dark themes',
  },
  delete: {
    heading: 'Back up and delete data:',
    summary: 'delete a run, or all runs with a label',
    description:
      'Delete a run with its journal, its large results and the runs of its sub-agents. Refused while a process drives the run or another run continues it. With --label, delete all runs with the labels, such as all data of a user, with the runs that continue them. Notes are kept by one label: exactly that label deletes them too; other labels, or more, do not. With --thread, delete a conversation. Runs that a process drives are cancelled first. A SQLite file is then written again, so that nothing of them is left in it.',
    '[run]': RUN,
    ...STORE,
    '--cascade': 'also delete runs that continue it or wait for one of its sub-agents',
    '--label <name=value>': labels('instead of a run: all runs with this label; repeatable'),
    '--thread <id>':
      'instead of a run: the runs of this thread, with their forks and what continues them; --label names the one that is meant',
    '--by <name>': read(
      'with --label or --thread: name to record as the author of cancellations (default: the OS user)',
      readName,
    ),
  },
  prune: {
    summary: 'delete runs that ended before a time',
    description:
      'Delete the runs that ended before a time, with the runs of their sub-agents. Spares runs that a process drives or that a later run continues.',
    ...STORE,
    '--before <time>': required(
      time('date or time, such as 2026-11-01, 2026-11-01T08:00:00Z or 30d (30 days ago)'),
    ),
    '--status <status>': oneOf(
      ['finished', 'failed', 'cancelled'],
      'only these: finished, failed or cancelled',
    ),
    '--label <name=value>': labels('only runs with this label; repeatable'),
    '--dry-run': 'delete nothing; print how many runs would be deleted',
  },
  backup: {
    summary: 'copy the store to a new file',
    description:
      'Copy all runs to a new file while other processes keep using the store. The file is a complete store: open it with --db.',
    '<file>': 'file to create; refused if it exists',
    ...STORE,
  },
  redact: {
    summary: 'redact values in the journal of a run',
    description:
      'Replace values in the journal with their SHA-256 digests, and delete the copies in the store. `show RUN --events --json` prints the entries that the paths refer to.',
    '<run>': RUN,
    ...STORE,
    '--path <pointer>': required(
      many('JSON Pointer that starts with an entry number, such as /1/input/0/content/0/text; repeatable'),
    ),
    '--by <name>': BY,
  },
  completion: {
    heading: 'Help:',
    summary: 'print a completion script for a shell',
    description:
      'Print a script that completes commands, options and run ids, for bash, zsh or fish. Load it when the shell starts: source <(agentchart completion bash), the same for zsh, or agentchart completion fish | source.',
    '<shell>': 'bash, zsh or fish',
  },
  docs: {
    summary: 'read the documentation, also of an error code',
    description:
      'Print a page of the documentation of this version, from the package itself, as Markdown. Without a topic, list all pages.',
    '[topic...]': 'name of a page, an error code, or a word of either, such as approvals or lease-held',
    '--json': STORE['--json'],
  },
} as const satisfies Readonly<Record<string, DeclaredCommand>>;

export type CommandName = keyof typeof COMMANDS;

/** The arguments and options of a command by name, as the command gets them. */
type Given<Declared> = { [Form in keyof Declared as NameOf<Form>]: ValueOf<Form, Declared[Form]> };
export type GivenTo<Name extends CommandName> = Given<(typeof COMMANDS)[Name]>;
export type StoreOptions = Given<typeof STORE>;
/** The options of commands that drive a run; some have no `by` or `yes`. */
export type DriveOptions = Given<typeof DRIVING_UNNAMED> & {
  by?: string | undefined;
  group?: string[] | undefined;
  yes?: boolean | undefined;
};

export type Action<Name extends CommandName> = (
  given: GivenTo<Name>,
  command: Command,
) => number | Promise<number>;

/** `--dry-run <x>` is `dryRun`, `<text...>` is `text`. */
type NameOf<Form> = Form extends `--no-${infer Name}`
  ? Name
  : Form extends `--${infer Name} ${string}` | `--${infer Name}`
    ? CamelCase<Name>
    : Form extends `<${infer Name}...>` | `[${infer Name}...]` | `<${infer Name}>` | `[${infer Name}]`
      ? Name
      : never;

type CamelCase<Name extends string> = Name extends `${infer First}-${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

type ValueOf<Form, Declared> = Declared extends { read(given: never, option: string): infer Value }
  ? Declared extends { isRequired: true } | { preset: string }
    ? Value
    : Value | undefined
  : Form extends `${string}...${string}`
    ? readonly string[]
    : Form extends `<${string}`
      ? string
      : Form extends `--no-${string}`
        ? boolean
        : Form extends `[${string}` | `${string} <${string}`
          ? string | undefined
          : boolean | undefined;
