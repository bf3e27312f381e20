import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { calling, Gateway, type Item, type Resource } from '../../support/responses/gateway.ts';
import {
  ASK,
  absent,
  as,
  DESK,
  FREE,
  LOOK,
  type Name,
  read,
  SECRET,
  STRANGERS,
  TOKENS,
} from '../../support/responses/tenants.ts';

const ASKED = { role: 'user', content: `Tell of a ${SECRET}.` };

let gateway: Gateway;
let anna: Awaited<ReturnType<typeof annas>>;

beforeAll(async () => {
  gateway = new Gateway(
    {
      talk: [
        { reasoning: `Of a ${SECRET}.`, text: `About a ${SECRET}.` },
        { text: 'Two.' },
        { text: 'Three.' },
      ],
      asks: [calling('ask', { about: SECRET }), { text: 'Asked.' }],
      gated: [LOOK, { text: 'Looked.' }],
      free: [LOOK, { text: 'Looked.' }],
      other: [{ text: 'Other.' }, { text: 'Another.' }],
    },
    { config: folder => ({ tokens: TOKENS, mcp_servers: { desk: folder.server() } }) },
  );
  anna = await annas();
});
afterAll(() => gateway.close());

async function request(name: Name, method: string, path: string, body?: object): Promise<Response> {
  return await gateway.app.request(`http://127.0.0.1:4100${path}`, {
    method,
    headers: { host: '127.0.0.1:4100', 'content-type': 'application/json', ...as(name) },
    ...(body && { body: JSON.stringify(body) }),
  });
}

async function create(name: Name, body: JsonObject): Promise<Resource> {
  const response = await gateway.send('POST', '', { input: `Tell of a ${SECRET}.`, ...body }, as(name));
  if (response.status !== 200) throw new Error(await response.text());
  return (await response.json()) as Resource;
}

/** Everything of anna's that has an id. */
async function annas() {
  const talk = await create('anna', { model: 'talk', include: ['reasoning.encrypted_content'] });
  const asks = await create('anna', { model: 'asks', tools: [ASK] });
  const gated = await create('anna', { model: 'gated', tools: [DESK] });
  const free = await create('anna', { model: 'free', tools: [FREE] });
  const unstored = await create('anna', { model: 'gated', tools: [DESK], store: false });
  const inputs = (await (
    await gateway.send('GET', `/${talk.id}/input_items`, undefined, as('anna'))
  ).json()) as {
    data: Item[];
  };
  const items = [talk, asks, gated, free, unstored].flatMap(({ output }) => output);
  return { talk, asks, gated, free, unstored, items: [...items, ...inputs.data] };
}

describe.each(STRANGERS)('to %s, what anna made does not exist:', name => {
  /** Compares the answers about an id of anna's and one that nothing has. */
  async function expectSame(id: string, ask: (id: string) => Promise<Response>): Promise<{ status: number }> {
    const [real, none] = [await read(await ask(id), id), await read(await ask(absent(id)), absent(id))];
    expect(real).toEqual(none);
    expect(real.body).not.toContain(SECRET);
    return real;
  }

  it('on every route with an id', async () => {
    const routes = gateway.app.hono.routes.filter(
      ({ method, path }) => method !== 'ALL' && path.startsWith('/v1/') && path.includes('/:'),
    );
    expect(routes.length).toBeGreaterThanOrEqual(5);
    const ids = [anna.talk, anna.asks, anna.gated, anna.free, anna.unstored, ...anna.items].map(
      ({ id }) => id,
    );
    for (const { method, path } of routes)
      for (const query of ['', '?stream=true'])
        for (const id of ids) {
          const ask = (id: string) =>
            request(name, method, path.replaceAll(/:\w+/g, id) + query, method === 'POST' ? {} : undefined);
          const { status } = await expectSame(id, ask);
          if (path.startsWith('/v1/responses/')) expect(status).toBe(404);
        }
    expect((await gateway.send('GET', `/${anna.talk.id}`, undefined, as('anna'))).status).toBe(200);
  });

  it('as the previous response', async () => {
    for (const { id } of [anna.talk, anna.asks, anna.gated, anna.free, anna.unstored])
      for (const path of ['/v1/responses', '/v1/responses/input_tokens'])
        for (const stream of [false, true])
          await expectSame(id, previous_response_id =>
            request(name, 'POST', path, { model: 'other', input: 'And?', previous_response_id, stream }),
          );
  });

  it('as a reference to an item of any kind', async () => {
    const kinds = new Set(anna.items.map(({ id }) => id.split('_')[0]));
    expect([...kinds].sort()).toEqual(expect.arrayContaining(['fc', 'mcp', 'mcpl', 'mcpr', 'msg', 'rs']));
    for (const { id } of anna.items) {
      const { status } = await expectSame(id, id =>
        request(name, 'POST', '/v1/responses', {
          model: 'other',
          input: [
            { type: 'item_reference', id },
            { role: 'user', content: 'And?' },
          ],
        }),
      );
      expect(status).toBe(400);
    }
  });

  it('as an item that is sent back under its id: it is what the client says it is', async () => {
    const bodies: Record<string, JsonObject> = {
      msg: { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Mine.' }] },
      rs: { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Mine.' }] },
      fc: { type: 'function_call', call_id: 'call_1', name: 'ask', arguments: '{}' },
      mcp: { type: 'mcp_call', server_label: 'desk', name: 'echo', arguments: '{}' },
      mcpl: { type: 'mcp_list_tools', server_label: 'desk', tools: [] },
      mcpr: { type: 'mcp_approval_request', server_label: 'desk', name: 'echo', arguments: '{}' },
    };
    const output = { type: 'function_call_output', call_id: 'call_1', output: 'Yes.' };
    for (const { id } of anna.items) {
      const body = bodies[id.split('_')[0] ?? ''];
      if (body === undefined) continue;
      const more = body.type === 'function_call' ? [output] : [];
      await expectSame(id, id =>
        request(name, 'POST', '/v1/responses', {
          model: 'other',
          tools: [ASK, DESK],
          input: [{ ...body, id }, ...more, { role: 'user', content: 'And?' }],
        }),
      );
    }
  });

  it('as an approval, with and without the request, by chain and by itself', async () => {
    const before = gateway.folder.calls().length;
    for (const asked of [anna.gated, anna.unstored]) {
      const item = asked.output.find(({ type }) => type === 'mcp_approval_request');
      if (item === undefined) throw new Error('nothing was asked');
      for (const approve of [true, false])
        for (const passed of [true, false])
          for (const previous of [undefined, asked.id]) {
            const decide = (id: string) =>
              request(name, 'POST', '/v1/responses', {
                model: 'gated',
                tools: [DESK],
                input: [
                  ...(passed ? [{ ...item, id }] : []),
                  { type: 'mcp_approval_response', approval_request_id: id, approve },
                ],
                ...(previous && { previous_response_id: id === item.id ? previous : absent(previous) }),
              });
            const [real, none] = [await decide(item.id), await decide(absent(item.id))];
            const shown = async (response: Response, id: string) => {
              const { status, body } = await read(response, id);
              return { status, body: body.replaceAll(/resp_(HEX)/g, 'RESPONSE').replaceAll(/_HEX/g, '_ID') };
            };
            expect(await shown(real, item.id)).toEqual(await shown(none, absent(item.id)));
            expect(real.status).toBe(400);
          }
    }
    expect(gateway.folder.calls().length).toBe(before);
  });

  it('as the summary of a compaction', async () => {
    const compact = { model: 'talk', input: [ASKED] };
    const made = (await (await request('anna', 'POST', '/v1/responses/compact', compact)).json()) as Resource;
    const item = made.output.find(({ type }) => type === 'compaction');
    expect(item).toBeDefined();
    const sealed = (id: string) => String(item?.encrypted_content).replace(/[0-9a-f]{32}/, id.slice(4));
    for (const path of ['/v1/responses', '/v1/responses/input_tokens', '/v1/responses/compact'])
      for (const reference of [false, true]) {
        const body = (id: string) => ({
          model: 'other',
          input: [
            reference
              ? { type: 'item_reference', id }
              : {
                  ...item,
                  id,
                  encrypted_content: sealed(id),
                },
            { role: 'user', content: 'And?' },
          ],
        });
        const { status } = await expectSame(item?.id ?? '', id => request(name, 'POST', path, body(id)));
        expect(status).toBe(400);
      }
  });

  it('as the call of a chat', async () => {
    const tools = [{ type: 'function', function: { name: 'ask' } }];
    const chat = (who: Name, more: object[]) =>
      request(who, 'POST', '/v1/chat/completions', {
        model: 'asks',
        tools,
        messages: [ASKED, ...more],
      });
    const asked = (await (await chat('anna', [])).json()) as {
      choices: [{ message: { tool_calls: [{ id: string }] } }];
    };
    const { message } = asked.choices[0];
    const [{ id }] = message.tool_calls;
    const history = (id: string) => [
      { ...message, tool_calls: [{ ...message.tool_calls[0], id }] },
      { role: 'tool', tool_call_id: id, content: 'Yes.' },
    ];
    const before = (await gateway.store.list({ limit: 1000 })).runs.length;
    const [real, none] = [await chat(name, history(id)), await chat(name, history(absent(id)))];
    expect(await read(real, id)).toEqual(await read(none, absent(id)));
    expect((await gateway.store.list({ limit: 1000 })).runs.length).toBe(before + 2);
  });

  it('as a conversation', async () => {
    const items = [ASKED];
    const { id } = (await (await request('anna', 'POST', '/v1/conversations', { items })).json()) as Resource;
    const listed = await request('otto', 'GET', `/v1/conversations/${id}/items`);
    expect(listed.status).toBe(200);
    const { data } = (await listed.json()) as { data: Item[] };
    const item = data[0]?.id ?? '';
    const bodies: Record<string, object> = { items: { items }, '': { metadata: { mine: 'yes' } } };
    const routes = [
      ...['', '/items', `/items/${item}`].map(path => ['GET', path] as const),
      ...['', '/items'].map(path => ['POST', path] as const),
      ...[`/items/${item}`, ''].map(path => ['DELETE', path] as const),
    ];
    for (const [method, path] of routes) {
      const body = method === 'POST' ? bodies[path.slice(1)] : undefined;
      const ask = (id: string) => request(name, method, `/v1/conversations/${id}${path}`, body);
      expect((await expectSame(id, ask)).status).toBe(404);
    }
    for (const path of ['/v1/responses', '/v1/responses/input_tokens'])
      for (const conversation of [(id: string) => id, (id: string) => ({ id })]) {
        const ask = (id: string) =>
          request(name, 'POST', path, { model: 'other', input: 'And?', conversation: conversation(id) });
        expect((await expectSame(id, ask)).status).toBeGreaterThanOrEqual(400);
      }
    expect((await request('anna', 'GET', `/v1/conversations/${id}/items`)).status).toBe(200);
  });

  it('under the same Idempotency-Key', async () => {
    const key = `key-for-${name}`;
    const once = async (who: Name, input: string) => {
      const body = { model: 'talk', input };
      const answer = await gateway.send('POST', '', body, { ...as(who), 'idempotency-key': key });
      return { status: answer.status, id: ((await answer.json()) as { id?: string }).id };
    };
    const first = await once('anna', 'go');
    expect(await once('otto', 'go')).toEqual(first);
    const mine = await once(name, 'go on');
    expect(mine.status).toBe(200);
    expect(mine.id).not.toBe(first.id);
    expect((await once('anna', 'go on')).status).toBe(409);
  });

  it('as the tool call of a message', async () => {
    const tools = [{ name: 'ask', input_schema: { type: 'object' } }];
    const send = (who: Name, more: object[]) =>
      request(who, 'POST', '/v1/messages', {
        model: 'asks',
        max_tokens: 100,
        tools,
        messages: [ASKED, ...more],
      });
    type Message = { content: { type: string; id: string }[] };
    const { content } = (await (await send('anna', [])).json()) as Message;
    const id = content.find(({ type }) => type === 'tool_use')?.id ?? '';
    const history = (as: string) => [
      { role: 'assistant', content: content.map(block => (block.id === id ? { ...block, id: as } : block)) },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: as, content: 'Yes.' }] },
    ];
    const before = (await gateway.store.list({ limit: 1000 })).runs.length;
    const [real, none] = [await send(name, history(id)), await send(name, history(absent(id)))];
    expect(real.status).toBe(200);
    expect(await read(real, id)).toEqual(await read(none, absent(id)));
    expect((await gateway.store.list({ limit: 1000 })).runs.length).toBe(before + 2);
  });
});

describe('clients with the same labels', () => {
  it('share what they made', async () => {
    for (const name of ['anna', 'otto'] as const) {
      const first = await create('anna', { model: 'talk' });
      const next = await create(name, { model: 'talk', input: 'And?', previous_response_id: first.id });
      expect(JSON.stringify(next.output)).toContain('Two.');
      expect((await request(name, 'DELETE', `/v1/responses/${first.id}`)).status).toBe(200);
    }
  });

  it('are those of the same name if they have none', async () => {
    const mine = await create('sole', { model: 'talk' });
    expect((await gateway.send('GET', `/${mine.id}`, undefined, as('sole'))).status).toBe(200);
    expect((await gateway.send('GET', `/${mine.id}`, undefined, as('lone'))).status).toBe(404);
  });
});

describe('an operator', () => {
  it('sees the responses of all', async () => {
    const next = await create('boss', { model: 'talk', input: 'And?', previous_response_id: anna.talk.id });
    expect(JSON.stringify(next.output)).toContain('Two.');
  });

  it('decides a call of a client, who does not see the response of that, and continues', async () => {
    const asked = await create('anna', { model: 'gated', tools: [DESK] });
    const request = asked.output.find(({ type }) => type === 'mcp_approval_request');
    const decision = { type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve: true };
    const body = { model: 'gated', tools: [DESK], previous_response_id: asked.id, input: [decision] };
    const decided = await create('boss', body);
    expect(JSON.stringify(decided.output)).toContain('Looked.');
    expect((await gateway.send('GET', `/${decided.id}`, undefined, as('anna'))).status).toBe(404);
    const again = await create('anna', body);
    expect(again.id).not.toBe(decided.id);
    const opposite = { ...body, input: [{ ...decision, approve: false }] };
    const refused = await gateway.send('POST', '', opposite, as('anna'));
    expect(await refused.json()).toMatchObject({ error: { code: 'approval_already_decided' } });
  });

  it('alone sees the responses of the time before there were tokens', async () => {
    const before = new Gateway({ talk: [{ text: 'One.' }] }, { store: gateway.store });
    const old = await before.create({ model: 'talk', input: 'Hi' });
    await before.close();
    expect((await gateway.send('GET', `/${old.id}`, undefined, as('boss'))).status).toBe(200);
    for (const name of ['anna', 'sole'] as const)
      expect((await gateway.send('GET', `/${old.id}`, undefined, as(name))).status).toBe(404);
  });

  it('finds the run by the labels of the client, its name in the journal, and no token', async () => {
    const made = await create('anna', { model: 'talk' });
    const [run] = (await gateway.store.list({ labels: { tenant: 'a' } })).runs;
    const journal = JSON.stringify(await gateway.store.read(run?.runId ?? ''));
    expect(journal).toContain('"caller":{"name":"anna","labels":{"tenant":"a"}}');
    expect(journal).not.toContain('the-token-of');
    expect(JSON.stringify(made)).not.toContain('tenant');
  });
});
