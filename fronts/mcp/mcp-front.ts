/**
 * Agents as the tools of an MCP server: one tool for each, named after it, which takes `{ input }` and answers with
 * what the run answers. `ask.ts` sends open calls to the caller, `tasks.ts` and `earlier-tasks.ts` offer runs as tasks,
 * `tool-result.ts` defines the results of tools, and `mcp-api.ts` serves over HTTP.
 *
 * M1 Cancelling or losing a request stops nothing: the run continues.
 * M2 Clients of revision 2026-07-28 get `input_required` and ask again, also after a restart of the server: the sealed
 *    `requestState` names the run and the digest of each call that was asked about, and nothing else can be decided.
 * M3 Earlier clients are asked while their call, or the request for the result of their task, is open.
 * M4 A client without elicitation and tasks gets a result that names the open calls.
 */

import type {
  CallToolResult,
  InputRequiredResult,
  McpServerFactory,
  Server,
  ServerContext,
} from '@modelcontextprotocol/server';
import { EngineError } from '../../protocol/error.ts';
import { settledNow, whileHeld } from '../../server/runs/run-registry.ts';
import { openCallsFor } from '../served/open-calls.ts';
import { messageForClient, type ServedRuns } from '../served/served-runs.ts';
import {
  type Decided,
  decide,
  digestsOf,
  type Followed,
  followAsking,
  formsFor,
  isLeft,
  NOTHING_DECIDED,
  settle,
} from './ask.ts';
import { answererOf, mcpCallerOf, TASKS, takesForms, takesTasks } from './client.ts';
import { addEarlierTasks, addTasks, createdEarlierTask, createdTask, EARLIER_TASKS } from './tasks.ts';
import { makeOffers, type Offer, readInput, toolResultOf } from './tool-result.ts';

export type McpFrontOptions = {
  runs: ServedRuns;
  /** Returns the key that seals `requestState`: 32 bytes, the same in every process that answers for these runs. */
  key(): Uint8Array;
  version: string;
  log(line: string): void;
};

const STATE_SECONDS = 30 * 24 * 60 * 60;

type Asked = { runId: string; tool: string; digests: Readonly<Record<string, string>> };

type Request = {
  server: Server;
  ctx: ServerContext;
  offered: Offer;
  given: Readonly<Record<string, unknown>>;
};

/** Loads the SDK and returns a factory of MCP servers, one per connection or request. @internal */
export async function createMcpFront(options: McpFrontOptions): Promise<McpServerFactory> {
  const {
    createRequestStateCodec,
    inputRequired,
    MissingRequiredClientCapabilityError: Missing,
    ProtocolError,
    ProtocolErrorCode,
    Server,
  } = await import('@modelcontextprotocol/server');
  const { runs, key, version, log } = options;
  const offers = makeOffers(runs.agents.values());
  const codec = createRequestStateCodec<Asked>({
    key: key(),
    ttlSeconds: STATE_SECONDS,
    bind: ctx => mcpCallerOf(ctx).name,
  });

  return ({ era }) => {
    const isCurrent = era === 'modern';
    const server = new Server(
      { name: 'agentchart', version },
      {
        capabilities: {
          tools: {},
          ...(isCurrent ? { extensions: { [TASKS]: {} } } : { tasks: EARLIER_TASKS }),
        },
        requestState: { verify: codec.verify },
        inputRequired: { legacyShim: false },
      },
    );
    server.onerror = error => logError(error, log);
    const tools = [...offers.values()].map(({ tool }) =>
      isCurrent ? tool : { ...tool, execution: { taskSupport: 'optional' as const } },
    );
    server.setRequestHandler('tools/list', () => ({ tools }));
    server.setRequestHandler('tools/call', async ({ params }, ctx) => {
      const offered = offers.get(params.name);
      if (offered === undefined)
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool named "${params.name}".`);
      try {
        const request: Request = { server, ctx, offered, given: params.arguments ?? {} };
        if (isCurrent) return await callCurrent(request);
        return await callEarlier(request, { asTask: params.task !== undefined });
      } catch (error) {
        if (ctx.mcpReq.signal.aborted) throw error;
        if (params.task !== undefined && !isCurrent)
          throw new ProtocolError(ProtocolErrorCode.InvalidParams, messageForClient(error, log));
        return { content: [{ type: 'text', text: messageForClient(error, log) }], isError: true };
      }
    });
    const tasks = { runs, offers, log, Failure: ProtocolError };
    if (isCurrent) addTasks(server, { ...tasks, Missing });
    else addEarlierTasks(server, tasks);
    return server;
  };

  /** A call of revision 2025-11-25 or earlier. */
  async function callEarlier(
    { server, ctx, offered, given }: Request,
    { asTask }: { asTask: boolean },
  ): Promise<CallToolResult> {
    const caller = mcpCallerOf(ctx);
    return await whileHeld(runs.begin(offered.agent, ...readInput(offered, given, caller)), async hold => {
      if (asTask) return await createdEarlierTask(runs, hold.run.id, caller);
      const asks = takesForms(server, ctx);
      const { settled, notes } = await followAsking({
        runs,
        hold,
        ctx,
        asks,
        as: answererOf(server, caller),
      });
      return toolResultOf(hold.run.id, settled, { hasSchema: hasSchema(offered), notes });
    });
  }

  /** A call of revision 2026-07-28: it begins a run, or answers what an earlier call was asked. */
  async function callCurrent(request: Request): Promise<CallToolResult | InputRequiredResult> {
    const { server, ctx, offered, given } = request;
    const caller = mcpCallerOf(ctx);
    const state = ctx.mcpReq.requestState<Asked>();
    if (state === undefined)
      return await whileHeld(runs.begin(offered.agent, ...readInput(offered, given, caller)), async hold => {
        if (takesTasks(server, ctx)) return await createdTask(runs, hold.run.id, caller);
        return await answerCurrent(request, { hold, ctx }, NOTHING_DECIDED);
      });
    return await whileHeld(runs.hold(ofTool(state, offered).runId, caller), async hold => {
      const { run } = hold;
      const open = openCallsFor(run.id, await settledNow(run));
      const replies = ctx.mcpReq.inputResponses ?? {};
      const given = { open, asked: state.digests, replies, as: answererOf(server, caller) };
      const decided = await decide(run, given);
      runs.drive(run.id);
      return await answerCurrent(request, { hold, ctx }, decided);
    });
  }

  async function answerCurrent(
    { server, ctx, offered }: Request,
    followed: Pick<Followed, 'hold' | 'ctx'>,
    decided: Decided,
  ): Promise<CallToolResult | InputRequiredResult> {
    const { run } = followed.hold;
    const settled = await settle(followed);
    const open = openCallsFor(run.id, settled);
    if (open.size === 0 || isLeft(open, decided) || !takesForms(server, ctx))
      return toolResultOf(run.id, settled, { hasSchema: hasSchema(offered), notes: decided.notes });
    const asked: Asked = { runId: run.id, tool: offered.tool.name, digests: digestsOf(open) };
    return inputRequired({
      inputRequests: formsFor(open, offered.agent.name, decided),
      requestState: await codec.mint(asked, ctx),
    });
  }
}

function hasSchema({ tool }: Offer): boolean {
  return tool.outputSchema !== undefined;
}

/** Throws `run-foreign` for the state of another tool's run. */
function ofTool(state: Asked, { tool }: Offer): Asked {
  if (state.tool === tool.name) return state;
  throw new EngineError('run-foreign', `This requestState belongs to the tool "${state.tool}".`);
}

const LONGEST = 300;

/** Omits the text after the first brace or bracket: the SDK quotes messages there, which may have the answers of people. */
export function logError(error: Error, log: (line: string) => void): void {
  const [said = ''] = error.message.split(/[[{]/, 1);
  log(`MCP: ${said.replace(/\s+/g, ' ').trim().slice(0, LONGEST) || 'a message that is not valid'}`);
}

/** A server: `begun` with the first request beyond `server/discover`, `ended` when the client has left. */
export type McpServing = {
  begun: Promise<void>;
  ended: Promise<void>;
  drain?(): void;
  close(): Promise<void>;
};

/** A client may start a process only to send `server/discover` and kill it: such a process starts and resumes no run. */
export async function serveMcpStdio(options: McpFrontOptions): Promise<McpServing> {
  const { serveStdio, StdioServerTransport } = await import('@modelcontextprotocol/server/stdio');
  const front = await createMcpFront(options);
  const transport = new StdioServerTransport();
  const onerror = (error: Error) => logError(error, options.log);
  const { close } = serveStdio(front, { transport, onerror });
  const { onmessage, onclose } = transport;
  const ended = new Promise<void>(resolve => {
    for (const event of ['end', 'close']) process.stdin.once(event, () => resolve());
    transport.onclose = () => {
      onclose?.();
      resolve();
    };
  });
  const begun = new Promise<void>(resolve => {
    transport.onmessage = message => {
      if ('method' in message && message.method !== 'server/discover') resolve();
      onmessage?.(message);
    };
  });
  return { begun, ended, close };
}
