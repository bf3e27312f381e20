import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { userMessage } from '../../../protocol/message.ts';
import type { RunCommand } from '../../../protocol/run-command.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { settleWith } from '../../support/engine/family.ts';

const sends = (count: number): RunCommand[] =>
  Array.from({ length: count }, (_, number) => ({ type: 'send', message: `message ${number}` }));

/** A run that waits for an approval, and then reads its messages. */
async function makeWaiting() {
  const host = new ManualHost();
  const store = memory();
  const agent = createAgent({
    name: 'a',
    host,
    store,
    tools: [makeTool('pay', { approval: true })],
    onMessage: 'queue',
    model: scripted([calls('pay'), { text: 'read' }]),
  });
  const { run } = await settleWith(agent, host);
  return { agent, host, store, run };
}

test('a run with 1,000 unread messages refuses more, and accepts the decision that lets it read them', async () => {
  const { host, store, run } = await makeWaiting();
  expect(await run.submit(sends(999))).toEqual({ accepted: true });
  const before = await eventsOf(store, run.id);
  expect(await run.submit(sends(2))).toMatchObject({ accepted: false, code: 'inbox-full', index: 1 });
  expect(await eventsOf(store, run.id)).toEqual(before);
  expect(await run.send('the last one')).toEqual({ accepted: true });
  expect(await run.send('one too many')).toMatchObject({
    code: 'inbox-full',
    message: expect.stringContaining('1000 unread messages'),
  });
  expect(await run.approve('call_0_0')).toEqual({ accepted: true });
  expect(await host.settle(run.settled())).toMatchObject({ status: 'finished', text: 'read', unread: [] });
  expect(await run.send('too late')).toMatchObject({ code: 'run-ended' });
});

test('a journal with more unread messages than the limit can be opened, and its run continues', async () => {
  const { agent, host, store, run } = await makeWaiting();
  const received = Array.from({ length: 1_500 }, (_, number) => ({
    type: 'message.received' as const,
    at: host.now(),
    items: [{ ...userMessage('more'), id: `item_${number}` }],
  }));
  const after = (await store.read(run.id)).length;
  await store.append(run.id, { after, input: true }, received, { status: 'waiting' });
  const again = await agent.open(run.id);
  expect(await again.send('one too many')).toMatchObject({ code: 'inbox-full' });
  expect(await again.approve('call_0_0')).toEqual({ accepted: true });
  expect(await host.settle(again.settled())).toMatchObject({ status: 'finished', unread: [] });
});
