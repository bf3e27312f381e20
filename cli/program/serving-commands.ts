import type { Command } from 'commander';
import type { McpOptions } from '../commands/fronts/mcp.ts';
import type { ServeOptions } from '../commands/serving/serve.ts';
import type { WorkerOptions } from '../commands/serving/worker.ts';
import { AGENT, collect, DB, GRACE, readVersion } from './command-options.ts';

const FORK_MODEL = 'a further model for forks of runs, such as openai:gpt-5; repeatable';

/** Adds the commands that run until they are stopped: `serve`, `worker` and `mcp`. */
export function addServing(program: Command, end: (exitCode: number) => void): void {
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
    .action(async (options: Omit<ServeOptions, 'version'>) =>
      end(await (await import('../commands/serving/serve.ts')).serve({ ...options, version: readVersion() })),
    );
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
    .action(async (options: Omit<WorkerOptions, 'version'>) =>
      end(await (await import('../commands/serving/worker.ts')).work({ ...options, version: readVersion() })),
    );
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
    .action(async (options: Omit<McpOptions, 'version'>) =>
      end(await (await import('../commands/fronts/mcp.ts')).mcp({ ...options, version: readVersion() })),
    );
}
