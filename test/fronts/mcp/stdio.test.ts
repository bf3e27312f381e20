import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterEach, expect, it } from 'vitest';
import { AGENT, calling, Desk, MAIN, REFUND } from '../../support/cli/desk.ts';
import { callDesk, type FormAnswer, textOf } from '../../support/fronts/mcp.ts';

const DONE = { text: 'Refunded.' };
const clients: Client[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});

/** `agentchart mcp` in a process of its own, on the desk's store, with a client. */
async function connect(desk: Desk, client: Client): Promise<StdioClientTransport> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [MAIN, 'mcp', '--agent', AGENT, '--db', desk.store],
    cwd: desk.folder,
    env: { AGENTCHART_MODEL: 'scripted:turns.json' },
    stderr: 'pipe',
  });
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

it('without an agent exits with 2 and says how to give one', async () => {
  const desk = new Desk([]);
  const ended = await desk.run(['mcp']);
  expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining('--agent MODULE') });
});
