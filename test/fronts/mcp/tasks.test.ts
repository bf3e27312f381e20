import {
  createTaskSessionFromClient,
  resultFromTaskOutcome,
  type TaskEnabledSession,
} from '@modelcontextprotocol/ext-tasks/client';
import { expect, it } from 'vitest';
import { closeAfterTests } from '../../support/fronts/close-after-tests.ts';
import {
  currentClient,
  DONE,
  type FormAnswer,
  type Ledger,
  type McpServer,
  makeDesk,
  mcpServer,
  REFUND,
  textOf,
} from '../../support/fronts/mcp.ts';
import { until } from '../../support/server/runs-app.ts';

const VERSION = '2026-07-28';
const used = closeAfterTests();

/** A session of the official extension on a client of the SDK, which cannot send the extension's requests itself. */
async function taskSession(server: McpServer, answer?: () => FormAnswer): Promise<TaskEnabledSession> {
  const client = await currentClient(server);
  let requests = 0;
  const session = createTaskSessionFromClient(client, {
    endpointId: 'desk',
    v2RequestFraming: {
      protocolVersion: VERSION,
      clientInfo: { name: 'tasks', version: '1' },
      clientCapabilities: { elicitation: { form: {} } },
    },
    rawDispatch: async request => {
      requests += 1;
      const { method, params } = request as { method: string; params: { name?: string; taskId?: string } };
      const response = await server.send(server.url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': VERSION,
          'mcp-method': method,
          'mcp-name': params.name ?? params.taskId ?? '',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: requests, method, params }),
      });
      const { result, error } = (await response.json()) as { result: never; error: never };
      return error === undefined ? { kind: 'result', result } : { kind: 'error', error };
    },
    ...(answer && { onInputRequest: async () => answer() as never }),
  });
  used(session);
  used(client);
  return session;
}

function begin(ledger: Ledger) {
  const agent = makeDesk([REFUND, DONE], ledger);
  const server = used(mcpServer([agent]));
  return { agent, server };
}

it('a run is a task that asks for its approval and completes with the answer', async () => {
  const ledger: Ledger = [];
  const { server } = begin(ledger);
  const session = await taskSession(server, () => ({ action: 'accept', content: {} }));

  const execution = await session.callTool('desk', { input: 'Refund A-1' });
  expect(execution.kind).toBe('task');
  const { outcome } = await execution.settle();

  expect(textOf(resultFromTaskOutcome(outcome))).toBe('Done.');
  expect(ledger).toEqual([4200]);
});

it('a task is found again by a restarted server, answered there, and cancelled', async () => {
  const ledger: Ledger = [];
  const { agent, server } = begin(ledger);
  const first = await taskSession(server, () => ({ action: 'cancel' }));
  const execution = await first.callTool('desk', { input: 'Refund A-1' });
  const taskId = execution.handle?.taskId ?? '';
  await until(async () => ((await agent.store.get(taskId))?.status === 'waiting' ? true : undefined));
  await execution.detach();
  server.close();

  const restarted = used(mcpServer([agent]));
  const task = (await taskSession(restarted)).task(taskId as never);
  expect(await task.snapshot()).toMatchObject({ status: 'input_required' });
  await task.updateJson({ call_0_0: { action: 'decline' } });
  expect(textOf(resultFromTaskOutcome(await task.result()))).toBe('Done.');
  expect(ledger).toEqual([]);

  const other = await (await taskSession(restarted, () => ({ action: 'cancel' }))).callTool('desk', {
    input: 'x',
  });
  await other.cancel();
  const id = other.handle?.taskId ?? '';
  await until(async () => ((await agent.store.get(id))?.status === 'cancelled' ? true : undefined));
});

it('a task that does not exist is an error', async () => {
  const { server } = begin([]);
  const session = await taskSession(server);
  await expect(session.task('run_none' as never).snapshot()).rejects.toThrow('There is no run with this id');
});

it.each(['tasks/get', 'tasks/update', 'tasks/cancel'])(
  '%s is refused for a client that did not declare the extension, and changes nothing',
  async method => {
    const ledger: Ledger = [];
    const { agent, server } = begin(ledger);
    const run = await agent.start('Refund A-1');
    await run.settled();
    const capability = { elicitation: { form: {} } };
    const response = await server.send(server.url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': VERSION,
        'mcp-method': method,
        'mcp-name': run.id,
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method,
        params: {
          taskId: run.id,
          _meta: {
            'io.modelcontextprotocol/protocolVersion': VERSION,
            'io.modelcontextprotocol/clientInfo': { name: 'plain', version: '1' },
            'io.modelcontextprotocol/clientCapabilities': capability,
          },
        },
      }),
    });

    expect(await response.json()).toMatchObject({
      error: {
        code: -32021,
        data: { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } },
      },
    });
    expect(response.status).toBe(400);
    expect((await agent.store.get(run.id))?.status).toBe('waiting');
  },
);
