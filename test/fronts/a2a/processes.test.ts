import type { Task } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { expect, it } from 'vitest';
import { calling, Desk, REFUND } from '../../support/cli/desk.ts';
import { allOf, foldUpdates, seen, sending } from '../../support/fronts/a2a.ts';
import { callDesk, textOf } from '../../support/fronts/mcp.ts';
import { ServedDesk } from '../../support/server/served-desk.ts';

it('a task and an MCP call that wait are decided after their server was killed', async () => {
  const desk = new Desk([calling(REFUND), { text: 'Refunded.' }]);
  const first = await ServedDesk.start(desk);
  const before = await new ClientFactory().createFromUrl(first.url);
  const updates = await allOf(before.sendMessageStream(sending({ text: 'Refund A-1' })));
  const [created] = updates;
  const id = created?.payload?.$case === 'task' ? created.payload.value.id : '';
  expect(seen(foldUpdates(updates)).state).toBe('TASK_STATE_INPUT_REQUIRED');
  const asked = await callDesk(await mcpClient(first));
  const [key = ''] = Object.keys(asked.inputRequests ?? {});
  await first.stop('SIGKILL');

  const second = await ServedDesk.start(desk);
  const after = await new ClientFactory().createFromUrl(second.url);
  const done = (await after.sendMessage(sending({ text: 'approve', taskId: id }))) as Task;
  expect(seen(done)).toMatchObject({ state: 'TASK_STATE_COMPLETED', answer: ['Refunded.'] });
  const client = await mcpClient(second);
  expect(textOf(await callDesk(client, asked, { [key]: { action: 'accept' } }))).toBe('Refunded.');
  await client.close();
  expect((await second.stop()).code).toBe(0);
});

/** A client of revision 2026-07-28 that hands questions to its caller. */
async function mcpClient({ url }: ServedDesk): Promise<Client> {
  const client = new Client(
    { name: 'current', version: '1' },
    {
      capabilities: { elicitation: { form: {} } },
      versionNegotiation: { mode: 'auto' },
      inputRequired: { autoFulfill: false },
    },
  );
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  return client;
}
