/**
 * Tasks of revision 2025-11-25: a run is a task, and its id the task's. A client polls `tasks/get`; `tasks/result` waits
 * until the run has ended, and sends its open calls as forms in the meantime.
 */
import type { CallToolResult, Server, ServerContext } from '@modelcontextprotocol/server';
import * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import { plainName } from '../../server/agent-names.ts';
import { type Hold, settledNow } from '../../server/runs/run-registry.ts';
import { describeOpenCalls, openCallsFor } from '../served/open-calls.ts';
import { messageForClient, type ServedRuns } from '../served/served-runs.ts';
import { callerOf, nameOf, takesForms } from './client.ts';
import { followToEnd } from './follow-run.ts';
import { INVALID_PARAMS, POLL_MS, type TaskOptions, taskId } from './tasks.ts';
import { resultOf } from './tool-result.ts';

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
