/**
 * Agents as the tools of an MCP server: one tool for each, named after it, which takes `{ input }` and answers with
 * what the run answers. `ask.ts` is how open calls reach the caller, `tasks.ts` is the tasks extension, `tool-result.ts`
 * says what a tool returns, and `mcp-api.ts` serves over HTTP.
 *
 * M1 A request that is cancelled or breaks off stops nothing: the run goes on.
 * M2 Clients of revision 2026-07-28 get `input_required` and ask again, also after a restart of the server: the sealed
 *    `requestState` names the run and the digest of each call that was asked about, and nothing else can be decided.
 * M3 Earlier clients are asked while their call is open. Without elicitation and tasks, the result says what waits.
 */
import type { CallToolResult, McpServerFactory, Server, ServerContext } from '@modelcontextprotocol/server';
import { EngineError } from '../../protocol/error.ts';
import type { Settled, WaitingRun } from '../../protocol/run-view.ts';
import type { Hold } from '../../server/runs/run-registry.ts';
import { listQuestions } from '../served/questions.ts';
import { messageForClient, type ServedRuns } from '../served/served-runs.ts';
import { type Decided, decide, formFor, formsFor, NOTHING_DECIDED } from './ask.ts';
import { askOpenCall } from './ask-open-call.ts';
import { callerOf, nameOf, TASKS, takesForms, takesTasks } from './client.ts';
import { makeOffers, type Offer, readInput } from './offers.ts';
import { reportProgress } from './progress.ts';
import { addTasks, createdTask } from './tasks.ts';
import { resultOf } from './tool-result.ts';

export type McpFrontOptions = {
  runs: ServedRuns;
  /** Returns the key that seals `requestState`: 32 bytes, the same in every process that answers for these runs. */
  key(): Uint8Array;
  version: string;
  log(line: string): void;
};

/** How long a `requestState` is valid, in seconds: 30 days. */
const STATE_SECONDS = 30 * 24 * 60 * 60;

/** How many forms in a row may come back unusable before the call ends. */
const MOST_FAULTS = 3;

/** The content of a `requestState`. */
type Asked = { runId: string; tool: string; digests: Readonly<Record<string, string>> };

/** A `tools/call` and the server that answers it. */
type Request = { server: Server; era: 'legacy' | 'modern'; ctx: ServerContext };

/** Loads the SDK and returns what makes the MCP server of each connection or request. */
export async function createMcpFront(options: McpFrontOptions): Promise<McpServerFactory> {
  const { createRequestStateCodec, inputRequired, ProtocolError, ProtocolErrorCode, Server } = await import(
    '@modelcontextprotocol/server'
  );
  const { runs, key, version, log } = options;
  const offers = makeOffers(runs.agents.values());
  const codec = createRequestStateCodec<Asked>({
    key: key(),
    ttlSeconds: STATE_SECONDS,
    bind: ctx => callerOf(ctx).name,
  });

  return ({ era }) => {
    const server = new Server(
      { name: 'agentchart', version },
      {
        capabilities: { tools: {}, ...(era === 'modern' && { extensions: { [TASKS]: {} } }) },
        requestState: { verify: codec.verify },
        inputRequired: { legacyShim: false },
      },
    );
    server.onerror = error => log(`MCP: ${error.message}`);
    server.setRequestHandler('tools/list', () => ({ tools: [...offers.values()].map(({ tool }) => tool) }));
    server.setRequestHandler('tools/call', async ({ params }, ctx) => {
      const offered = offers.get(params.name);
      if (offered === undefined)
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool named "${params.name}".`);
      try {
        return await call({ server, era, ctx }, offered, params.arguments ?? {});
      } catch (error) {
        if (ctx.mcpReq.signal.aborted) throw error;
        return { content: [{ type: 'text', text: messageForClient(error, log) }], isError: true };
      }
    });
    if (era === 'modern') addTasks(server, { runs, offers, log, Failure: ProtocolError });
    return server;
  };

  async function call(
    request: Request,
    offered: Offer,
    given: Readonly<Record<string, unknown>>,
  ): Promise<CallToolResult> {
    const { server, era, ctx } = request;
    const caller = callerOf(ctx);
    const state = ctx.mcpReq.requestState<Asked>();
    const by = nameOf(server, caller);
    const hold = await (state === undefined
      ? runs.begin(offered.agent, ...readInput(offered, given, caller))
      : runs.hold(ofTool(state, offered).runId, caller));
    try {
      if (state === undefined && era === 'modern' && takesTasks(server, ctx))
        return await createdTask(runs, hold.run.id, caller);
      const decided =
        state === undefined
          ? NOTHING_DECIDED
          : await decide(hold.run, {
              waiting: waitingOf(await runs.look(hold.run)),
              asked: state.digests,
              answers: ctx.mcpReq.inputResponses ?? {},
              by,
            });
      runs.drive(hold.run.id);
      return await follow({ ...request, offered, hold, by }, decided);
    } finally {
      hold.release();
    }
  }

  /** Waits until the run settles, and asks what it waits for until it ends or is left waiting. */
  async function follow(
    { server, era, ctx, offered, hold, by }: Request & { offered: Offer; hold: Hold; by: string },
    first: Decided,
  ): Promise<CallToolResult> {
    const { run } = hold;
    const notes = [...first.notes];
    let faults = 0;
    for (let decided = first; ; ) {
      const settled = await settle(hold, ctx);
      const questions = settled.status === 'waiting' ? listQuestions(run.id, settled) : [];
      const isLeft = questions.some(({ key }) => decided.cancelled.has(key));
      if (questions.length === 0 || isLeft || faults === MOST_FAULTS || !takesForms(server, ctx))
        return resultOf(run.id, settled, { hasSchema: offered.tool.outputSchema !== undefined, notes });
      const digests = Object.fromEntries(questions.map(({ key, call: { digest } }) => [key, digest]));
      if (era === 'modern') {
        const inputRequests = formsFor(questions, offered.agent.name, decided);
        const asked: Asked = { runId: run.id, tool: offered.tool.name, digests };
        return inputRequired({
          inputRequests,
          requestState: await codec.mint(asked, ctx),
        }) as unknown as CallToolResult;
      }
      const forms = questions.map(question => ({
        question,
        form: formFor(question, offered.agent.name, decided.faults.get(question.key)),
      }));
      const answers = await askOpenCall(run, forms, ctx);
      const now = await runs.look(run);
      decided = await decide(run, { waiting: waitingOf(now), asked: digests, answers, by });
      notes.push(...decided.notes);
      faults = decided.faults.size > 0 && decided.accepted === 0 ? faults + 1 : 0;
      runs.drive(run.id);
    }
  }
}

/** Waits until the run settles; throws when the request is cancelled, and leaves the run alone. */
async function settle({ run, closing }: Hold, ctx: ServerContext): Promise<Settled> {
  const ended = AbortSignal.any([ctx.mcpReq.signal, closing]);
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(new EngineError('refused', `The request ended. Run ${run.id} continues.`));
  if (ended.aborted) abort();
  ended.addEventListener('abort', abort, { once: true });
  const stop = reportProgress(run, ctx);
  try {
    return await Promise.race([run.settled(), aborted]);
  } finally {
    ended.removeEventListener('abort', abort);
    stop();
  }
}

function waitingOf(settled: Settled | null): WaitingRun | null {
  return settled?.status === 'waiting' ? settled : null;
}

/** Throws `run-foreign` for the state of another tool's run. */
function ofTool(state: Asked, { tool }: Offer): Asked {
  if (state.tool === tool.name) return state;
  throw new EngineError('run-foreign', `This requestState belongs to the tool "${state.tool}".`);
}
