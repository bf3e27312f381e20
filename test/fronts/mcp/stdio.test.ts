import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as SdkClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as SdkStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterEach, expect, it } from 'vitest';
import { readOwnerName } from '../../../protocol/owner-name.ts';
import { AGENT, calling, Desk, MAIN, REFUND } from '../../support/cli/desk.ts';
import { allOf } from '../../support/fronts/a2a.ts';
import { callDesk, type FormAnswer, textOf } from '../../support/fronts/mcp.ts';
import { until } from '../../support/server/runs-app.ts';

const DONE = { text: 'Refunded.' };
const clients: { close(): Promise<void> }[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});

/** The process of `agentchart mcp` on the desk's store. */
const serverOf = (desk: Desk) => ({
  command: process.execPath,
  args: [MAIN, 'mcp', '--agent', AGENT, '--db', desk.store],
  cwd: desk.folder,
  env: { AGENTCHART_MODEL: 'scripted:turns.json', NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? '' },
  stderr: 'pipe' as const,
});

/** `agentchart mcp` in a process of its own, on the desk's store, with a client. */
async function connect(desk: Desk, client: Client): Promise<StdioClientTransport> {
  const transport = new StdioClientTransport(serverOf(desk));
  await client.connect(transport);
  clients.push(client);
  return transport;
}

it('a waiting call is answered after its server was killed, in a new process', async () => {
  const desk = new Desk([calling(REFUND), DONE]);
  desk.write('.keep', '');
  const options = {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: { pin: '2026-07-28' } },
    inputRequired: { autoFulfill: false },
  } as const;
  const first = new Client({ name: 'first', version: '1' }, options);
  const { pid } = await connect(desk, first);
  const asked = await callDesk(first);
  expect(asked.resultType).toBe('input_required');
  const [key = ''] = Object.keys(asked.inputRequests ?? {});
  process.kill(pid ?? 0, 'SIGKILL');

  const second = new Client({ name: 'second', version: '1' }, options);
  await connect(desk, second);
  const reply = await callDesk(second, asked, { [key]: { action: 'accept' } });

  expect(textOf(reply)).toBe('Refunded.');
});

it('an earlier client answers a form, and the command line decides for one without forms', async () => {
  const desk = new Desk([calling(REFUND), DONE]);
  const earlier = new Client({ name: 'earlier', version: '1' }, { capabilities: { elicitation: {} } });
  earlier.setRequestHandler('elicitation/create', async (): Promise<FormAnswer> => ({ action: 'accept' }));
  await connect(desk, earlier);
  expect(textOf(await callDesk(earlier))).toBe('Refunded.');
  await earlier.close();

  const plain = new Client({ name: 'plain', version: '1' });
  await connect(desk, plain);
  const [, runId = '', callId = ''] =
    /agentchart approve (\S+) (\S+)/.exec(textOf(await callDesk(plain))) ?? [];
  const approved = await desk.run(['approve', runId, callId], { AGENTCHART_MODEL: 'scripted:turns.json' });
  expect(approved).toMatchObject({ code: 0, stdout: expect.stringContaining('Refunded.') });
});

it('the task of an earlier client is answered after its server was killed while a form was open', async () => {
  const desk = new Desk([calling(REFUND), DONE]);
  const connectEarlier = async (answer: () => FormAnswer | Promise<FormAnswer>) => {
    const client = new SdkClient({ name: 'earlier', version: '1' }, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, answer);
    const transport = new SdkStdio(serverOf(desk));
    await client.connect(transport);
    clients.push(client);
    await client.listTools();
    return { tasks: client.experimental.tasks, pid: transport.pid ?? 0 };
  };
  const asked = Promise.withResolvers<void>();
  const first = await connectEarlier(() => {
    asked.resolve();
    return new Promise(() => {});
  });
  const call = first.tasks.callToolStream({ name: 'desk', arguments: { input: 'Refund A-1' } });
  const created = (await call.next()).value;
  const taskId = created?.type === 'taskCreated' ? created.task.taskId : '';
  const rest = allOf(call);
  await asked.promise;
  process.kill(first.pid, 'SIGKILL');
  expect((await rest).at(-1)?.type).toBe('error');

  const second = await connectEarlier(() => ({ action: 'accept', content: {} }));
  expect(textOf(await second.tasks.getTaskResult(taskId, CallToolResultSchema))).toBe('Refunded.');
});

it('a run is resumed by the process of the session, not by one that only tells its revisions', async () => {
  const desk = new Desk([calling('wait'), DONE]);
  const started = desk.start(['run', '--agent', AGENT, '--json', 'go'], desk.model);
  const printed = await started.printed('tool.started');
  const runId = /"runId":"(\w+)"/.exec(printed)?.[1] ?? '';
  started.child.kill('SIGKILL');
  await started.ended;

  const client = new Client({ name: 'c', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  const { pid } = await connect(desk, client);
  await client.listTools();
  const claims = async () =>
    (await desk.journal(runId)).flatMap(event =>
      event.type === 'run.claimed' ? [readOwnerName(event.by)?.pid] : [],
    );
  expect(await until(async () => ((await claims()).length > 1 ? await claims() : undefined))).toEqual([
    started.child.pid,
    pid,
  ]);
});

it('the server ends with 0 when a client sends garbage without end, and logs none of what clients send', async () => {
  const desk = new Desk([calling(REFUND), DONE]);
  const server = desk.start(['mcp', '--agent', AGENT, '--db', desk.store], desk.model);
  const { stdin } = server.child;
  stdin.write(
    'garbage\n[]\n{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"output":"my-pin"}}}\n',
  );
  stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
  await server.printed('"id":1');
  stdin.write('x'.repeat(11_000_000));
  const { code, stderr } = await server.ended;
  expect(code).toBe(0);
  expect(stderr).toContain('exceeded maximum size');
  expect(stderr).not.toContain('my-pin');
});

it('without an agent exits with 2 and says how to give one', async () => {
  const desk = new Desk([]);
  const ended = await desk.run(['mcp']);
  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('--agent MODULE') });
});
