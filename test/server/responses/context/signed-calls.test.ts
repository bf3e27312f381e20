import { expect, it } from 'vitest';
import { createAgent } from '../../../../agent/index.ts';
import type { Item } from '../../../../protocol/item.ts';
import type { JsonObject } from '../../../../protocol/json.ts';
import { createRunsApp } from '../../../../server/app.ts';
import { createGateway } from '../../../../server/gateway.ts';
import { memory } from '../../../../stores/memory.ts';
import { answerWith, recordRequests } from '../../../support/engine/models.ts';
import { addUp } from '../../../support/responses/add-up.ts';
import { endOf, parseStream, type Resource } from '../../../support/responses/gateway.ts';

/** Gemini signs the first call of a turn instead of its reasoning: the signature has to come back with the call. */

const USER = { role: 'user', content: 'Go.' };
const tools = [{ type: 'function', name: 'look', parameters: { type: 'object', properties: {} } }];
const SIGNED = { provider: 'gemini', data: { thoughtSignature: 'c2ln' } };
const call = { type: 'tool_call', callId: 'call_1', name: 'look', arguments: '{}', opaque: SIGNED } as const;

function makeServer(before: readonly Item[]) {
  const store = memory();
  const { model, requests } = recordRequests(
    answerWith(
      (_, turns) =>
        turns === 0
          ? { toolCalls: [{ callId: 'call_1', name: 'look' }], items: [...before, call] }
          : { text: 'Done.' },
      { provider: 'gemini' },
    ),
  );
  const made = createGateway(
    { store, log: () => {} },
    new Map([['own', createAgent({ name: 'own', model, store })]]),
  );
  const app = createRunsApp({ store, agents: new Map(), mounted: [made.responses], log: () => {} });
  const ask = async (body: object) => {
    const response = await app.request('http://127.0.0.1:4100/v1/responses', {
      method: 'POST',
      headers: { host: '127.0.0.1:4100', 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'own',
        store: false,
        include: ['reasoning.encrypted_content'],
        tools,
        ...body,
      }),
    });
    if (response.status !== 200) throw new Error(await response.text());
    return await response.text();
  };
  const create = async (body: object): Promise<Resource> => JSON.parse(await ask(body));
  return { requests, ask, create };
}

const reasoning: Item = { type: 'reasoning', text: 'Hm.' };

it.each<[string, Item[]]>([
  ['with its reasoning', [reasoning]],
  ['in a reasoning item of its own, where there is none', []],
])('the signature of a call comes back %s, in another process too', async (_, before) => {
  const { create } = makeServer(before);
  const { output } = await create({ input: [USER] });
  expect(output.map(({ type }) => type)).toEqual(['reasoning', 'function_call']);
  const { requests, create: createLater } = makeServer(before);
  await createLater({ input: [USER] });
  const items = output.map(({ id: _, status: __, ...item }): JsonObject => item);
  await createLater({
    input: [USER, ...items, { type: 'function_call_output', call_id: 'call_1', output: '1' }],
  });
  expect(requests[1]?.transcript).toContainEqual(
    expect.objectContaining({ type: 'tool_call', opaque: SIGNED }),
  );
});

it('the items are the same in a stream', async () => {
  const { ask } = makeServer([]);
  const events = parseStream(await ask({ input: [USER], stream: true }));
  expect(addUp(events)).toEqual(endOf(events).output);
  expect(endOf(events).output.map(({ type }) => type)).toEqual(['reasoning', 'function_call']);
});

it('a client that does not keep reasoning, and a stored response, get no such item', async () => {
  for (const more of [{ include: [] }, { store: true }]) {
    const { output } = await makeServer([]).create({ input: [USER], ...more });
    expect(output.map(({ type }) => type)).toEqual(['function_call']);
  }
});
