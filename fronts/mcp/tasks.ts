/**
 * Runs as tasks; the id of a run is the task's. With the tasks extension, a run that waits for a decision is
 * `input_required`, and `tasks/update` decides. In revision 2025-11-25, `tasks/result` waits until the run has ended, and
 * sends its open calls as forms in the meantime.
 */
import type {
  CallToolResult,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  Server,
  ServerContext,
} from '@modelcontextprotocol/server';
import * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import type { Person } from '../../protocol/run-command.ts';
import type { Settled } from '../../protocol/run-view.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { plainName } from '../../server/agent-names.ts';
import { type Hold, settledNow, whileHeld } from '../../server/runs/run-registry.ts';
import { describeOpenCalls, openCallsFor } from '../served/open-calls.ts';
import { messageForClient, type ServedRuns } from '../served/served-runs.ts';
import { decide, digestsOf, followToEnd, formsFor, NOTHING_DECIDED } from './ask.ts';
import { answererOf, mcpCallerOf, TASKS, takesForms, takesTasks } from './client.ts';
import { type Offer, toolResultOf } from './tool-result.ts';

const TASK_POLL_MS = 500;

const INVALID_PARAMS = -32602;
const RUN_FAILED = -32000;

export const EARLIER_TASKS = { cancel: {}, requests: { tools: { call: {} } } };

const RELATED_TASK = 'io.modelcontextprotocol/related-task';

type Fields = { [name: string]: unknown };

type TaskOptions = {
  runs: ServedRuns;
  offers: ReadonlyMap<string, Offer>;
  log(line: string): void;
  Failure: typeof ProtocolError;
};

type Asking = { hold: Hold; ctx: ServerContext; caller: Caller; as: Person };

const SCHEMAS = {
  params: z.looseObject({ taskId: z.string().min(1).max(500) }),
  result: z.looseObject({}),
};

/** Adds methods about a task. `check` throws for a request that may not ask. */
function addMethods(
  server: Server,
  { runs, log, Failure }: TaskOptions,
  methods: Readonly<Record<string, (asking: Asking) => Promise<Fields>>>,
  check: (ctx: ServerContext) => void = () => {},
): void {
  for (const [method, act] of Object.entries(methods))
    server.setRequestHandler(method, SCHEMAS, async ({ taskId }, ctx) => {
      check(ctx);
      try {
        const caller = mcpCallerOf(ctx);
        const as = answererOf(server, caller);
        return await whileHeld(runs.hold(taskId, caller), hold => act({ hold, ctx, caller, as }));
      } catch (error) {
        if (ctx.mcpReq.signal.aborted || error instanceof Failure) throw error;
        throw new Failure(INVALID_PARAMS, messageForClient(error, log));
      }
    });
}

async function cancel({ hold: { run }, as }: Asking, runs: ServedRuns) {
  const result = await run.cancel({ as, reason: 'cancelled by the MCP client' });
  runs.drive(run.id);
  return result;
}

function hasSchema(offers: TaskOptions['offers'], { run }: Hold): boolean {
  return offers.get(plainName(run.context.agent.name))?.tool.outputSchema !== undefined;
}

export async function createdTask(runs: ServedRuns, runId: string, caller: Caller): Promise<CallToolResult> {
  const record = await runs.record(runId, caller);
  return { resultType: 'task', status: 'working', ...describe(record), content: [] };
}

/** The methods of the tasks extension; a request that does not declare it gets `Missing` (-32021). */
export function addTasks(
  server: Server,
  { Missing, ...options }: TaskOptions & { Missing: typeof MissingRequiredClientCapabilityError },
): void {
  const { runs, offers } = options;
  const methods = {
    'tasks/get': viewTask,
    // The SDK takes `inputResponses` out of the params of every method.
    'tasks/update': async ({ hold: { run }, ctx, as }: Asking) => {
      const open = openCallsFor(run.id, await settledNow(run));
      const replies = ctx.mcpReq.inputResponses ?? {};
      await decide(run, { open, asked: digestsOf(open), replies, as });
      runs.drive(run.id);
      return {};
    },
    'tasks/cancel': async (asking: Asking) => {
      await cancel(asking, runs);
      return {};
    },
  };
  addMethods(server, options, methods, ctx => {
    if (!takesTasks(server, ctx))
      throw new Missing({ requiredCapabilities: { extensions: { [TASKS]: {} } } });
  });

  async function viewTask({ hold, caller }: Asking): Promise<Fields> {
    const { run } = hold;
    const task = describe(await runs.record(run.id, caller));
    const settled = await settledNow(run);
    switch (settled?.status) {
      case undefined:
        runs.drive(run.id);
        return { ...task, status: 'working' };
      case 'waiting': {
        const open = openCallsFor(run.id, settled);
        if (open.size === 0) return { ...task, status: 'working', statusMessage: `Run ${run.id} is paused.` };
        const inputRequests = formsFor(open, run.context.agent.name, NOTHING_DECIDED);
        return { ...task, status: 'input_required', inputRequests };
      }
      case 'finished': {
        const result = toolResultOf(run.id, settled, { hasSchema: hasSchema(offers, hold) });
        return { ...task, status: 'completed', result: { ...result, resultType: 'complete' } };
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
    pollIntervalMs: TASK_POLL_MS,
  };
}

type EarlierState = {
  status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';
  statusMessage?: string;
};

export async function createdEarlierTask(
  runs: ServedRuns,
  runId: string,
  caller: Caller,
): Promise<CallToolResult> {
  const record = await runs.record(runId, caller);
  return { task: describeEarlier(record, { status: 'working' }), content: [] };
}

/** Adds `tasks/get`, `tasks/result` and `tasks/cancel` of revision 2025-11-25. */
export function addEarlierTasks(server: Server, options: TaskOptions): void {
  const { runs, offers, Failure } = options;
  addMethods(server, options, {
    'tasks/get': view,
    'tasks/result': async ({ hold, ctx, as }) => {
      const { run } = hold;
      runs.drive(run.id);
      const meta = { [RELATED_TASK]: { taskId: run.id } };
      const asks = takesForms(server, ctx);
      const { settled, notes } = await followToEnd({ runs, hold, ctx, asks, as, meta });
      const result = toolResultOf(run.id, settled, { hasSchema: hasSchema(offers, hold), notes });
      return { ...result, _meta: { ...result._meta, ...meta } };
    },
    'tasks/cancel': async asking => {
      const cancelled = await cancel(asking, runs);
      if (!cancelled.accepted) throw new Failure(INVALID_PARAMS, cancelled.message);
      await asking.hold.run.settled();
      return await view(asking);
    },
  });

  async function view({ hold: { run }, ctx, caller }: Asking): Promise<Fields> {
    const settled = await settledNow(run);
    const state = stateOf(run.id, settled, takesForms(server, ctx));
    if (settled === null) runs.drive(run.id);
    return describeEarlier(await runs.record(run.id, caller), state);
  }
}

function stateOf(runId: string, settled: Settled | null, hasForms: boolean): EarlierState {
  switch (settled?.status) {
    case undefined:
      return { status: 'working' };
    case 'waiting': {
      // A client without forms would wait for a result that it cannot bring about.
      const asks = hasForms && openCallsFor(runId, settled).size > 0;
      const statusMessage = describeOpenCalls(runId, settled);
      return { status: asks ? 'input_required' : 'working', statusMessage };
    }
    case 'finished':
      return { status: 'completed' };
    case 'failed':
      return { status: 'failed', statusMessage: settled.error.message };
    case 'cancelled':
      return { status: 'cancelled' };
  }
}

function describeEarlier(record: RunRecord, state: EarlierState): Fields {
  const { taskId, ttlMs: ttl, pollIntervalMs: pollInterval, ...times } = describe(record);
  return { taskId, ...state, ...times, ttl, pollInterval };
}
