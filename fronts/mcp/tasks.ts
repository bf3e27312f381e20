/** The tasks extension: a run is a task, and its id the task's. A run that waits for a decision is `input_required`. */

import type {
  CallToolResult,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  Server,
  ServerContext,
} from '@modelcontextprotocol/server';
import * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { plainName } from '../../server/agent-names.ts';
import { type Hold, settledNow } from '../../server/runs/run-registry.ts';
import { describeOpenCalls, openCallsFor } from '../served/open-calls.ts';
import { messageForClient, type ServedRuns } from '../served/served-runs.ts';
import { decide, digestsOf, followToEnd, formsFor, NOTHING_DECIDED } from './ask.ts';
import { callerOf, nameOf, TASKS, takesForms, takesTasks } from './client.ts';
import type { Offer } from './tool-result.ts';
import { resultOf } from './tool-result.ts';

/** How often clients should ask for a task, in ms. */
const POLL_MS = 500;

/** The JSON-RPC codes for an unknown task and for a task with a failed run. */
const INVALID_PARAMS = -32602;
const RUN_FAILED = -32000;

type Fields = { [name: string]: unknown };

const taskId = z.string().min(1).max(500);
const anyResult = z.looseObject({});

type TaskOptions = {
  runs: ServedRuns;
  offers: ReadonlyMap<string, Offer>;
  log(line: string): void;
  Failure: typeof ProtocolError;
};

export async function createdTask(runs: ServedRuns, runId: string, caller: Caller): Promise<CallToolResult> {
  const record = await runs.record(runId, caller);
  return { resultType: 'task', status: 'working', ...describe(record), content: [] };
}

/** A request that does not declare the extension is refused with `Missing`, the SDK's class for the JSON-RPC error -32021. */
export function addTasks(
  server: Server,
  {
    runs,
    offers,
    log,
    Failure,
    Missing,
  }: TaskOptions & { Missing: typeof MissingRequiredClientCapabilityError },
): void {
  const answer = async (
    ctx: ServerContext,
    id: string,
    act: (hold: Hold, caller: Caller) => Promise<Fields>,
  ) => {
    if (!takesTasks(server, ctx))
      throw new Missing({ requiredCapabilities: { extensions: { [TASKS]: {} } } });
    try {
      const caller = callerOf(ctx);
      const hold = await runs.hold(id, caller);
      try {
        return await act(hold, caller);
      } finally {
        hold.release();
      }
    } catch (error) {
      throw new Failure(INVALID_PARAMS, messageForClient(error, log));
    }
  };

  const get = { params: z.looseObject({ taskId }), result: anyResult };
  server.setRequestHandler('tasks/get', get, (params, ctx) =>
    answer(ctx, params.taskId, async (hold, caller) => await viewTask(hold, caller)),
  );

  // The SDK takes `inputResponses` out of the params of every method.
  server.setRequestHandler('tasks/update', get, (params, ctx) =>
    answer(ctx, params.taskId, async ({ run }, caller) => {
      const settled = await settledNow(run);
      if (settled?.status === 'waiting') {
        const open = openCallsFor(run.id, settled);
        await decide(run, {
          open,
          asked: digestsOf(open),
          replies: ctx.mcpReq.inputResponses ?? {},
          by: nameOf(server, caller),
        });
        runs.drive(run.id);
      }
      return {};
    }),
  );

  server.setRequestHandler('tasks/cancel', get, (params, ctx) =>
    answer(ctx, params.taskId, async ({ run }, caller) => {
      await run.cancel({ by: nameOf(server, caller), reason: 'cancelled by the MCP client' });
      runs.drive(run.id);
      return {};
    }),
  );

  async function viewTask({ run }: Hold, caller: Caller): Promise<Fields> {
    const record = await runs.record(run.id, caller);
    const settled = await settledNow(run);
    const { name } = run.context.agent;
    const hasSchema = offers.get(plainName(name))?.tool.outputSchema !== undefined;
    const task = describe(record);
    switch (settled?.status) {
      case undefined:
        runs.drive(run.id);
        return { ...task, status: 'working' };
      case 'waiting': {
        const open = openCallsFor(run.id, settled);
        if (open.size === 0) return { ...task, status: 'working', statusMessage: `Run ${run.id} is paused.` };
        const inputRequests = formsFor(open, name, NOTHING_DECIDED);
        return { ...task, status: 'input_required', inputRequests };
      }
      case 'finished': {
        const result = { ...resultOf(run.id, settled, { hasSchema }), resultType: 'complete' };
        return { ...task, status: 'completed', result: result };
      }
      case 'failed':
        return { ...task, status: 'failed', error: { code: RUN_FAILED, message: settled.error.message } };
      case 'cancelled':
        return { ...task, status: 'cancelled' };
    }
  }
}

/** The task of a run, in any status. Tasks are kept as long as their runs. */
function describe({ runId, createdAt, updatedAt }: RunRecord) {
  return {
    taskId: runId,
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(updatedAt).toISOString(),
    ttlMs: null,
    pollIntervalMs: POLL_MS,
  };
}

export const EARLIER_TASKS = { cancel: {}, requests: { tools: { call: {} } } };

/** The member of `_meta` that names a message's task. */
const RELATED_TASK = 'io.modelcontextprotocol/related-task';

type Task = {
  taskId: string;
  status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';
  statusMessage?: string;
  createdAt: string;
  lastUpdatedAt: string;
  ttl: null;
  pollInterval: number;
};

export async function createdEarlierTask(
  runs: ServedRuns,
  runId: string,
  caller: Caller,
): Promise<CallToolResult> {
  return { task: await taskOf(runs, runId, caller, { status: 'working' }), content: [] };
}

/** Adds `tasks/get`, `tasks/result` and `tasks/cancel`. */
export function addEarlierTasks(server: Server, { runs, offers, log, Failure }: TaskOptions): void {
  const params = z.looseObject({ taskId });
  const handle = (
    method: string,
    act: (hold: Hold, ctx: ServerContext, caller: Caller) => Promise<Record<string, unknown>>,
  ) =>
    server.setRequestHandler(method, { params, result: z.looseObject({}) }, async (given, ctx) => {
      try {
        const caller = callerOf(ctx);
        const hold = await runs.hold(given.taskId, caller);
        try {
          return await act(hold, ctx, caller);
        } finally {
          hold.release();
        }
      } catch (error) {
        if (ctx.mcpReq.signal.aborted || error instanceof Failure) throw error;
        throw new Failure(INVALID_PARAMS, messageForClient(error, log));
      }
    });

  handle('tasks/get', async (hold, ctx, caller) => await view(hold, ctx, caller));

  handle('tasks/result', async (hold, ctx, caller) => {
    const { run } = hold;
    runs.drive(run.id);
    const asks = takesForms(server, ctx);
    const by = nameOf(server, caller);
    const meta = { [RELATED_TASK]: { taskId: run.id } };
    const { settled, notes } = await followToEnd({ runs, hold, ctx, asks, by, meta });
    const result = resultOf(run.id, settled, { hasSchema: hasSchema(hold), notes });
    return { ...result, _meta: { ...result._meta, ...meta } };
  });

  handle('tasks/cancel', async (hold, ctx, caller) => {
    const { run } = hold;
    const cancelled = await run.cancel({
      by: nameOf(server, caller),
      reason: 'cancelled by the MCP client',
    });
    if (!cancelled.accepted) throw new Failure(INVALID_PARAMS, cancelled.message);
    runs.drive(run.id);
    await run.settled();
    return await view(hold, ctx, caller);
  });

  async function view({ run }: Hold, ctx: ServerContext, caller: Caller): Promise<Task> {
    const settled = await settledNow(run);
    const describe = (facts: Pick<Task, 'status' | 'statusMessage'>) => taskOf(runs, run.id, caller, facts);
    switch (settled?.status) {
      case undefined:
        runs.drive(run.id);
        return await describe({ status: 'working' });
      case 'waiting': {
        // A client without forms would wait for a result that it cannot bring about.
        const asks = takesForms(server, ctx) && openCallsFor(run.id, settled).size > 0;
        const statusMessage = describeOpenCalls(run.id, settled);
        return await describe({ status: asks ? 'input_required' : 'working', statusMessage });
      }
      case 'finished':
        return await describe({ status: 'completed' });
      case 'failed':
        return await describe({ status: 'failed', statusMessage: settled.error.message });
      case 'cancelled':
        return await describe({ status: 'cancelled' });
    }
  }

  function hasSchema({ run }: Hold): boolean {
    return offers.get(plainName(run.context.agent.name))?.tool.outputSchema !== undefined;
  }
}

async function taskOf(
  runs: ServedRuns,
  runId: string,
  caller: Caller,
  facts: Pick<Task, 'status' | 'statusMessage'>,
): Promise<Task> {
  const { createdAt, updatedAt } = await runs.record(runId, caller);
  return {
    taskId: runId,
    ...facts,
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(updatedAt).toISOString(),
    ttl: null,
    pollInterval: POLL_MS,
  };
}
