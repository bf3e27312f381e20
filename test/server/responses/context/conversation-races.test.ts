import { expect, it } from 'vitest';
import { memory } from '../../../../stores/memory.ts';
import { watchStore } from '../../../support/engine/watched-store.ts';
import { calling, Gateway } from '../../../support/responses/gateway.ts';

const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };

it('a request in a conversation that another process has just changed is refused before it forks a run', async () => {
  const inner = memory();
  let isRaced = false;
  const note = {
    type: 'items',
    items: [{ type: 'message', role: 'user', content: 'Elsewhere.', id: 'msg_elsewhere' }],
  };
  const event = { type: 'run.noted' as const, at: 1, by: 'conversations', note };
  const store = watchStore(inner, {
    async beforeAppend(runId, [first]) {
      if (!isRaced || first?.type !== 'run.noted' || first.by !== 'conversations') return;
      isRaced = false;
      const { seq = 0 } = (await inner.get(runId)) ?? {};
      await inner.append(runId, { after: seq, input: true }, [event], { status: 'cancelled' });
    },
  });
  const raced = new Gateway({ ask: [calling('ask'), { text: 'Thanks.' }] }, { store });
  const { id } = await raced.client().conversations.create();
  const body = { model: 'ask', tools: [ASK] };
  const asked = await raced.create({ ...body, input: 'go', conversation: id });
  const output = { type: 'function_call_output', call_id: asked.output[0]?.call_id, output: 'yes' };
  await raced.create({ ...body, input: [output], previous_response_id: asked.id });
  const before = (await inner.list()).runs.length;
  isRaced = true;
  expect(await raced.refused({ ...body, input: [output], conversation: id })).toMatchObject({
    status: 409,
    code: 'conversation_locked',
  });
  expect((await inner.list()).runs).toHaveLength(before);
  await raced.close();
});
