import { expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { editTranscript, editTurn } from '../../../engine/run/edits.ts';
import { type Context, createContext } from '../../../machines/context.ts';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { makeConfig, makeStarted } from '../../support/machines/builders.ts';

const ASK = { ...userMessage('pay'), id: 'ask' };
const MORE = { ...userMessage('and more'), id: 'more' };
const call = (callId: string, change: { name?: string; arguments?: string } = {}): Item => ({
  type: 'tool_call',
  callId,
  name: 'pay',
  arguments: '{}',
  ...change,
});
const result = (callId: string): Item => ({ type: 'tool_result', callId, output: 'paid', isError: false });

const made = (context: Partial<Context>) => ({
  context: { ...createContext(makeStarted(makeConfig())), ...context },
  host: new ManualHost(),
  connectTools: async () => new Map(),
  rules: [],
  loadPast: async () => [],
});

async function edit(transcript: Item[], items: Item[]) {
  return await editTranscript(items, made({ transcript }), {});
}

test('a call that has a result keeps its name and its arguments', async () => {
  const transcript = [ASK, call('a'), result('a')];
  expect(await edit(transcript, transcript)).toMatchObject({ type: 'transcript.edited' });
  for (const change of [{ name: 'refund' }, { arguments: '{"cents":1}' }])
    expect(await edit(transcript, [ASK, call('a', change), result('a')])).toMatchObject({
      code: 'input-invalid',
      message: expect.stringContaining('already run with other arguments'),
    });
});

test('a result that an edit left out is put back after its turn', async () => {
  const transcript = [ASK, call('a'), result('a'), MORE, call('b'), result('b')];
  const edited = await edit(transcript, [ASK, call('a'), MORE, call('b'), result('b')]);
  expect(edited).toMatchObject({ type: 'transcript.edited', items: transcript });
});

test('all calls of the last turn may be without a result, and run', async () => {
  const edited = await edit([ASK], [ASK, call('a'), call('b')]);
  expect(edited).toMatchObject({ type: 'transcript.edited', calls: [{ callId: 'a' }, { callId: 'b' }] });
});

/** A run whose call `pay` has run with the input that a person gave it, while another call waits. */
async function payWhileAnotherWaits() {
  const host = new ManualHost();
  const paid: unknown[] = [];
  const agent = createAgent({
    ...{ name: 'a', host, model: scripted([calls(['pay', { cents: 1 }], 'send'), { text: 'done' }]) },
    tools: [
      makeTool('pay', { run: (input: unknown) => void paid.push(input) }),
      makeTool('send', { approval: true }),
    ],
  });
  const run = await agent.start('pay', { paused: true });
  await host.settle(run.settled());
  await run.step();
  await host.settle(run.settled());
  await run.editCall('call_0_0', { input: { cents: 2 } });
  await run.unpause();
  await host.settle(run.settled());
  expect(paid).toEqual([{ cents: 2 }]);
  return { host, run, paid };
}

test('a call that has run with an edited input, and is left as it was, does not run again', async () => {
  const { host, run, paid } = await payWhileAnotherWaits();
  expect(await run.editTranscript([...run.context.transcript, MORE])).toEqual({ accepted: true });
  await run.approve('call_0_1');
  await host.settle(run.settled());
  expect(paid).toEqual([{ cents: 2 }]);
});

test('a call of an open round that has run keeps its arguments', async () => {
  const { run } = await payWhileAnotherWaits();
  const changed = run.context.transcript.map(item =>
    item.type === 'tool_call' && item.name === 'pay' ? { ...item, arguments: '{"cents":3}' } : item,
  );
  expect(await run.editTranscript(changed)).toMatchObject({ code: 'input-invalid' });
});

test('a call that has run and was left out does not come back to run again', async () => {
  const { run } = await payWhileAnotherWaits();
  const { transcript } = run.context;
  await run.pause();
  expect(await run.editTranscript(transcript.slice(0, 1))).toEqual({ accepted: true });
  expect(await run.editTranscript(transcript)).toMatchObject({
    code: 'input-invalid',
    message: expect.stringContaining('call_0_0 was already run'),
  });
});

test('a new call of an edited turn does not get the id of a call that has run and was left out', async () => {
  const done = { callId: 'a', name: 'pay', digest: 'd', outcome: 'done', at: 0 } as const;
  const lastTurn = { provider: 'p', finishReason: 'stop', calls: 0, final: false, draft: false } as const;
  const turn = made({
    transcript: [ASK],
    lastTurn: { ...lastTurn, from: 1 },
    ledger: { fresh: [done], past: {}, counts: {} },
  });
  const twice = await editTurn({ calls: [{ callId: 'a', name: 'pay', input: {} }] }, turn);
  expect(twice).toMatchObject({ code: 'input-invalid', message: expect.stringContaining('exists already') });
});

test('a failed call that is retried runs with the input that it had', async () => {
  const host = new ManualHost();
  const seen: unknown[] = [];
  const pay = makeTool('pay', {
    run: (input: unknown, { key }: { key: string }) => {
      seen.push([input, key]);
      if (seen.length === 1) throw new Error('busy');
      return 'paid';
    },
  });
  const model = scripted([calls(['pay', { cents: 500 }]), { text: 'done' }]);
  const run = await createAgent({ name: 'a', host, model, tools: [pay] }).start('pay', { paused: true });
  const settle = () => host.settle(run.settled());
  await settle();
  await run.step();
  await settle();
  await run.editCall('call_0_0', { input: { cents: 5 } });
  await run.step();
  await settle();
  expect(await run.retry('call_0_0')).toEqual({ accepted: true });
  await run.unpause();
  expect(await settle()).toMatchObject({ results: [{ input: { cents: 5 }, output: 'paid' }] });
  expect(seen[1]).toEqual(seen[0]);
  expect(run.context.transcript[1]).toMatchObject({ type: 'tool_call', arguments: '{"cents":5}' });
});
