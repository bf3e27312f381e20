import { expect, test } from 'vitest';
import { editTranscript } from '../../../engine/run/edits.ts';
import { createContext } from '../../../machines/context.ts';
import type { Item } from '../../../protocol/item.ts';
import { userMessage } from '../../../protocol/message.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
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

async function edit(transcript: Item[], items: Item[]) {
  const context = { ...createContext(makeStarted(makeConfig())), transcript };
  const run = {
    context,
    host: new ManualHost(),
    connectTools: async () => new Map(),
    rules: [],
    loadPast: async () => [],
  };
  return await editTranscript(items, run, {});
}

test('a call that has a result keeps its name and its arguments', async () => {
  const made = [ASK, call('a'), result('a')];
  expect(await edit(made, made)).toMatchObject({ type: 'transcript.edited' });
  for (const change of [{ name: 'refund' }, { arguments: '{"cents":1}' }])
    expect(await edit(made, [ASK, call('a', change), result('a')])).toMatchObject({
      code: 'input-invalid',
      message: expect.stringContaining('already run with other arguments'),
    });
});

test('a result that an edit left out is put back after its turn', async () => {
  const made = [ASK, call('a'), result('a'), MORE, call('b'), result('b')];
  const edited = await edit(made, [ASK, call('a'), MORE, call('b'), result('b')]);
  expect(edited).toMatchObject({ type: 'transcript.edited', items: made });
});

test('all calls of the last turn may be without a result, and run', async () => {
  const edited = await edit([ASK], [ASK, call('a'), call('b')]);
  expect(edited).toMatchObject({ type: 'transcript.edited', calls: [{ callId: 'a' }, { callId: 'b' }] });
});
