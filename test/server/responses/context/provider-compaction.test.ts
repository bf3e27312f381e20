import { expect, it } from 'vitest';
import { createAgent } from '../../../../agent/index.ts';
import type { ModelRequest, Usage } from '../../../../protocol/turn.ts';
import { createRunsApp } from '../../../../server/app.ts';
import { createGateway } from '../../../../server/gateway.ts';
import { memory } from '../../../../stores/memory.ts';
import { answerWith, recordRequests } from '../../../support/engine/models.ts';
import type { Failure, Resource } from '../../../support/responses/gateway.ts';

const usageOf = (inputTokens: number): Usage => ({
  inputTokens,
  outputTokens: 1,
  cachedInputTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
});
const WHOLE = {
  type: 'provider_item',
  kind: 'compaction',
  opaque: { provider: 'own', data: 'sealed' },
} as const;

/** A server whose model `own` is of a provider with a compaction of its own, and `other` of one without. */
function makeServer() {
  const store = memory();
  const asked: ModelRequest[] = [];
  const { model, requests } = recordRequests({
    ...answerWith(() => ({ text: 'Yes.', usage: usageOf(5_000) }), { provider: 'own' }),
    compact: async request => {
      asked.push(request);
      return { items: [WHOLE], usage: usageOf(7) };
    },
  });
  const other = answerWith(() => ({ text: 'No.', usage: usageOf(5) }));
  const agents = new Map(
    Object.entries({ own: model, other }).map(([name, model]) => [name, createAgent({ name, model, store })]),
  );
  const made = createGateway({ store, log: () => {} }, agents);
  const app = createRunsApp({ store, agents: new Map(), mounted: [made.responses], log: () => {} });
  const send = async (body: object, path = '') =>
    await app.request(`http://127.0.0.1:4100/v1/responses${path}`, {
      method: 'POST',
      headers: { host: '127.0.0.1:4100', 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  const create = async (body: object, path?: string) => {
    const response = await send(body, path);
    if (response.status !== 200) throw new Error(await response.text());
    return (await response.json()) as Resource;
  };
  return { asked, requests, send, create };
}

const context_management = [{ type: 'compaction', compact_threshold: 1_000 }];

it("compacts with the provider's own compaction, whose item goes back to it and counts in the usage", async () => {
  const { asked, requests, create } = makeServer();
  const first = await create({ model: 'own', input: 'First.' });
  const second = { model: 'own', input: 'Second.', previous_response_id: first.id, context_management };
  const next = await create(second);
  expect(next.output.map(({ type }) => type)).toEqual(['compaction', 'message']);
  expect(next.usage).toMatchObject({ input_tokens: 5_007 });
  expect(asked).toHaveLength(1);
  expect(requests.at(-1)?.transcript).toContainEqual(expect.objectContaining(WHOLE));
});

it('hands the item of the provider only to its own models, by the item and by the chain', async () => {
  const { requests, send, create } = makeServer();
  const input = [
    { role: 'user', content: 'First.' },
    { role: 'assistant', content: 'Yes.' },
  ];
  const { output } = await create({ model: 'own', input }, '/compact');
  const say = { role: 'user', content: 'And?' };
  const read = await create({ model: 'own', input: [...output, say] });
  expect(requests.at(-1)?.transcript).toContainEqual(expect.objectContaining(WHOLE));
  for (const body of [{ input: [...output, say] }, { input: 'And?', previous_response_id: read.id }]) {
    const refused = await send({ model: 'other', ...body });
    expect(refused.status).toBe(400);
    const { error } = (await refused.json()) as { error: Failure };
    expect(error).toMatchObject({
      code: 'compaction_not_readable',
      message: expect.stringContaining('"own"'),
    });
  }
});

it('compacts with it where the last item of the input asks for that, also if nothing is stored', async () => {
  const { asked, requests, send, create } = makeServer();
  const trigger = { type: 'compaction_trigger' };
  const body = { model: 'own', store: false };
  const { output } = await create({ ...body, input: [{ role: 'user', content: 'First.' }, trigger] });
  expect(output).toMatchObject([{ type: 'compaction' }]);
  expect(asked).toHaveLength(1);
  const input = [...output, { role: 'user', content: 'And?' }];
  await create({ ...body, input });
  expect(requests.at(-1)?.transcript).toContainEqual(expect.objectContaining(WHOLE));
  const refused = (await (await send({ ...body, model: 'other', input })).json()) as { error: Failure };
  expect(refused.error).toMatchObject({ code: 'compaction_not_readable' });
});
