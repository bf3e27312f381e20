import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { closeAfterTests } from '../../support/fronts/close-after-tests.ts';
import {
  ASK,
  DONE,
  type Ledger,
  type McpServer,
  makeDesk,
  makeOffice,
  mcpServer,
  REFUND,
  type TaskForm,
  taskClient,
  textOf,
} from '../../support/fronts/mcp.ts';
import { until } from '../../support/server/runs-app.ts';

const used = closeAfterTests();

type TaskClient = Awaited<ReturnType<typeof taskClient>>;

/** Calls the desk as a task; `next` continues to the first message of a type. */
function callAsTask(client: TaskClient) {
  const messages = client.experimental.tasks.callToolStream({
    name: 'desk',
    arguments: { input: 'Refund A-1' },
  });
  const seen: string[] = [];
  const next = async (type: string) => {
    for (let step = await messages.next(); step.done !== true; step = await messages.next()) {
      const message = step.value;
      seen.push(message.type === 'taskStatus' ? message.task.status : message.type);
      if (message.type === type) return message;
    }
    throw new Error(`No ${type} in ${seen.join(', ')}.`);
  };
  return { next, seen };
}

/** The id of the only run, once it waits. */
async function waitingRun({ store }: McpServer): Promise<string> {
  return await until(async () => (await store.list({ status: 'waiting' })).runs[0]?.runId);
}

describe('a client of the SDK with the tasks of revision 2025-11-25', () => {
  it('gets a run as a task, is asked for its approval, and gets the answer', async () => {
    const ledger: Ledger = [];
    const server = used(mcpServer([makeDesk([REFUND, DONE], ledger)]));
    const forms: TaskForm[] = [];
    const client = used(
      await taskClient(server, form => {
        forms.push(form);
        return { action: 'accept', content: {} };
      }),
    );

    const call = callAsTask(client);
    const created = await call.next('taskCreated');
    const { result } = (await call.next('result')) as { result: object };

    expect(textOf(result)).toBe('Done.');
    expect(ledger).toEqual([4200]);
    const [run] = (await server.store.list({})).runs;
    expect(created).toMatchObject({ task: { taskId: run?.runId, status: 'working', ttl: null } });
    expect(forms.map(({ _meta }) => _meta)).toEqual([
      { 'io.modelcontextprotocol/related-task': { taskId: run?.runId } },
    ]);
    const again = await client.experimental.tasks.getTaskResult(run?.runId ?? '', CallToolResultSchema);
    expect(again).toMatchObject({
      _meta: { 'io.modelcontextprotocol/related-task': { taskId: run?.runId } },
    });
  });

  it('without tasks calls the same tool as before', async () => {
    const server = used(mcpServer([makeDesk([REFUND, DONE])]));
    const client = used(await taskClient(server, () => ({ action: 'accept', content: {} })));
    expect(textOf(await client.callTool({ name: 'desk', arguments: { input: 'x' } }))).toBe('Done.');
  });

  it('answers the task of a restarted server', async () => {
    const ledger: Ledger = [];
    const agent = makeDesk([REFUND, DONE], ledger);
    const before = mcpServer([agent]);
    const first = callAsTask(await taskClient(before));
    await first.next('taskCreated');
    const taskId = await waitingRun(before);
    before.close();

    const client = used(
      await taskClient(used(mcpServer([agent])), () => ({ action: 'accept', content: {} })),
    );
    expect(await client.experimental.tasks.getTask(taskId)).toMatchObject({ status: 'input_required' });
    expect(textOf(await client.experimental.tasks.getTaskResult(taskId, CallToolResultSchema))).toBe('Done.');
    expect(ledger).toEqual([4200]);
  });

  it('that leaves a form open waits for the decision of another process, and is asked the next question', async () => {
    const agent = makeDesk([REFUND, ASK, DONE]);
    const server = used(mcpServer([agent]));
    const asked: string[] = [];
    const client = used(
      await taskClient(server, ({ message }) => {
        asked.push(message.includes('refund') ? 'refund' : 'ask');
        if (message.includes('refund')) return { action: 'cancel' };
        return { action: 'accept', content: { output: 'The blue one.' } };
      }),
    );
    const call = callAsTask(client);
    const result = call.next('result');
    await until(async () => (asked.length > 0 ? true : undefined));
    const run = await agent.open(await waitingRun(server));
    expect(await run.approve('call_0_0')).toEqual({ accepted: true });

    expect(textOf(((await result) as { result: object }).result)).toBe('Done.');
    expect(asked).toEqual(['refund', 'ask']);
  });

  it('without elicitation sees how to decide, and gets the answer after the decision', async () => {
    const agent = makeDesk([REFUND, DONE]);
    const server = used(mcpServer([agent]));
    const client = used(await taskClient(server));
    await callAsTask(client).next('taskCreated');
    const taskId = await waitingRun(server);
    const task = await client.experimental.tasks.getTask(taskId);
    expect(task).toMatchObject({
      status: 'working',
      statusMessage: expect.stringContaining(`agentchart approve ${taskId} call_0_0`),
    });

    const result = client.experimental.tasks.getTaskResult(taskId, CallToolResultSchema);
    await (await agent.open(taskId)).reject('call_0_0');
    expect(textOf(await result)).toBe('Done.');
  });

  it('answers for a sub-agent', async () => {
    const ledger: Ledger = [];
    const server = used(mcpServer([makeOffice(ledger)]));
    const client = used(await taskClient(server, () => ({ action: 'accept', content: {} })));
    const { result } = (await callAsTask(client).next('result')) as { result: object };
    expect(textOf(result)).toBe('The clerk did it.');
    expect(ledger).toEqual([4200]);
  });

  it('gets an error, not a task, for arguments that are not valid', async () => {
    const server = used(mcpServer([makeDesk([DONE])]));
    const client = used(await taskClient(server));
    const messages = client.experimental.tasks.callToolStream({ name: 'desk', arguments: { input: 5 } });
    const { value } = await messages.next();
    expect(value).toMatchObject({ type: 'error', error: { code: -32602 } });
    expect(String(value?.type === 'error' && value.error.message)).toContain(
      'The arguments of "desk" are invalid',
    );
  });

  it('cancels a task once, and gets the reason of a failed task', async () => {
    const failing = makeDesk([{ error: { code: 'authentication', message: 'wrong key' } } as never], [], {
      name: 'failing',
    });
    const agent = makeDesk([REFUND, DONE], [], { store: failing.store });
    const server = used(mcpServer([agent, failing]));
    const client = used(await taskClient(server));
    await callAsTask(client).next('taskCreated');
    const taskId = await waitingRun(server);
    const { tasks } = client.experimental;

    expect(await tasks.cancelTask(taskId)).toMatchObject({ taskId, status: 'cancelled' });
    await expect(tasks.cancelTask(taskId)).rejects.toThrow('has ended');
    expect(await tasks.getTaskResult(taskId, CallToolResultSchema)).toMatchObject({ isError: true });

    const failed = await failing.start('x');
    await failed.settled();
    expect(await tasks.getTask(failed.id)).toMatchObject({ status: 'failed', statusMessage: 'wrong key' });
    await expect(tasks.getTask('run_none')).rejects.toThrow('There is no run with this id');
  });
});
