import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import { Gateway, type Page, type Resource, runOf, typesOf } from '../../support/responses/gateway.ts';

const TOOL = { type: 'mcp', server_label: 'desk', require_approval: 'always' };
const ASK = { type: 'function', name: 'ask' };
const USER = { role: 'user', content: 'Say hi.' };
const say = (text: string) => ({ name: 'echo', arguments: { text } });

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway(
    {
      two: [{ toolCalls: [say('a'), say('b')] }, { text: 'Both said.' }],
      mixed: [{ toolCalls: [say('a'), { name: 'ask' }] }, { text: 'Said and asked.' }],
      talk: ['One.', 'Two.', 'Three.', 'Four.', 'Five.'].map(text => ({ text })),
      slow: [{ text: 'Slowly said.', delayMs: 60_000 }],
    },
    { config: folder => ({ mcp_servers: { desk: folder.server({ allowed_tools: ['echo'] }) } }) },
  );
});
afterAll(() => gateway.close());

function answer(request: { id: string } | undefined, approve: boolean): JsonObject {
  return { type: 'mcp_approval_response', approval_request_id: request?.id ?? '', approve };
}

/** A response that requests approval of two calls, and the first of its approval requests. */
async function ask() {
  const asked = await gateway.create({ model: 'two', input: [USER], tools: [TOOL] });
  const request = asked.output.find(({ type }) => type === 'mcp_approval_request');
  if (request === undefined) throw new Error('nothing was asked');
  return { asked, request };
}

describe('a reference', () => {
  const refer = (id: string | null | undefined) => ({ type: 'item_reference', id });
  const talk = (more: object) => ({ model: 'talk', ...more });
  const resolves = async (id: string | null | undefined, more: object = {}) => {
    const response = await gateway.send('POST', '', talk({ input: [refer(id), USER], ...more }));
    const body = (await response.json()) as { error?: { code: string } | null };
    if (response.status !== 200) expect(body.error).toMatchObject({ code: 'item_not_found' });
    return response.status === 200;
  };
  const inputOf = async ({ id }: Resource) => (await gateway.read<Page>(`/${id}/input_items`)).data[0]?.id;

  it('after a response resolves to the input and output of its chain and nothing else', async () => {
    const one = await gateway.create(talk({ input: 'a' }));
    const two = await gateway.create(talk({ input: 'b', previous_response_id: one.id }));
    const other = await gateway.create(talk({ input: 'c' }));
    const behind = { previous_response_id: two.id };
    for (const response of [one, two]) {
      expect(await resolves(response.output[0]?.id, behind)).toBe(true);
      expect(await resolves(await inputOf(response), behind)).toBe(true);
    }
    expect(await resolves(other.output[0]?.id, behind)).toBe(false);
    expect(await resolves(await inputOf(other), behind)).toBe(false);
    expect(await resolves(two.output[0]?.id, { previous_response_id: one.id })).toBe(false);
  });

  it('after a fork resolves to items that its run shares with the other run, and to no later items there', async () => {
    const asked = await gateway.create({ model: 'mixed', input: 'a', tools: [ASK] });
    const call = asked.output.find(({ type }) => type === 'function_call');
    const say = (output: string) => ({
      model: 'mixed',
      tools: [ASK],
      previous_response_id: asked.id,
      input: [{ type: 'function_call_output', call_id: call?.call_id, output }],
    });
    const first = await gateway.create(say('yes'));
    const fork = await gateway.create(say('no'));
    const behind = { previous_response_id: fork.id };
    expect(await resolves(await inputOf(asked), behind)).toBe(true);
    expect(await resolves(fork.output[0]?.id, behind)).toBe(true);
    expect(await resolves(first.output[0]?.id, behind)).toBe(false);
    expect(await resolves(first.output[0]?.id, { previous_response_id: asked.id })).toBe(false);
  });

  it('to a list of tools resolves to it', async () => {
    const { asked } = await ask();
    const [list] = asked.output;
    expect(list?.type).toBe('mcp_list_tools');
    expect(await resolves(list?.id)).toBe(true);
    expect(await resolves(list?.id?.replace(/_0$/, '_1'))).toBe(false);
  });

  it('without a previous response resolves to output items, whose ids cannot be guessed, and not to input items', async () => {
    const id = 'msg_1';
    const one = await gateway.create(talk({ input: [{ ...USER, id }] }));
    expect(await resolves(one.output[0]?.id)).toBe(true);
    expect(await inputOf(one)).toBe(id);
    expect(await resolves(id)).toBe(false);
    expect(await resolves(id, { previous_response_id: one.id })).toBe(true);
  });

  it('without a previous response resolves in one chain for the whole request: that of the newest response named', async () => {
    const says = async (references: readonly object[], more: object = {}) =>
      await gateway.send('POST', '', talk({ input: [USER, ...references, USER], ...more }));
    const grow = async (known: readonly Resource[], more: object = {}) =>
      (await (
        await says(
          known.map(({ output }) => refer(output[0]?.id)),
          more,
        )
      ).json()) as Resource;
    const one = await grow([]);
    const two = await grow([one]);
    const three = await grow([one, two]);
    expect(JSON.stringify(three.output)).toContain('Three.');
    const other = await grow([]);
    const theirs = await grow([other]);
    for (const [first, second] of [
      [one, other],
      [three, other],
      [two, theirs],
      [three, theirs],
    ] as const) {
      for (const [at, pair] of [
        [1, [first, second]],
        [2, [second, first]],
      ] as const) {
        const response = await says(pair.map(({ output }) => refer(output[0]?.id)));
        const id = first.output[0]?.id;
        const message = `Item with id '${id}' not found.`;
        expect(response.status).toBe(400);
        expect(await response.json()).toMatchObject({
          error: { code: 'item_not_found', param: `input[${at}]`, message },
        });
      }
    }
    expect((await says([refer(two.output[0]?.id), refer(one.output[0]?.id)])).status).toBe(200);
    expect((await says([refer(three.output[0]?.id), refer(theirs.output[0]?.id)])).status).toBe(400);
  });

  it('after a response also resolves to the items its chain was assembled from, and to nothing else', async () => {
    const one = await gateway.create(talk({ input: 'a' }));
    const two = await gateway.create(talk({ input: [USER, refer(one.output[0]?.id), USER] }));
    const three = await gateway.create(talk({ input: 'c', previous_response_id: two.id }));
    const other = await gateway.create(talk({ input: 'd' }));
    const behind = { previous_response_id: three.id };
    for (const response of [one, two, three])
      expect(await resolves(response.output[0]?.id, behind)).toBe(true);
    expect(await resolves(other.output[0]?.id, behind)).toBe(false);
    const input = [one, two, three].map(({ output }) => refer(output[0]?.id));
    expect((await gateway.send('POST', '', talk({ input: [USER, ...input, USER] }))).status).toBe(200);
  });

  it('resolves through a deleted response to earlier ones, and to none after the one it names', async () => {
    const { asked, request } = await ask();
    const [list] = asked.output;
    const two = await gateway.create(talk({ input: [refer(list?.id), USER] }));
    const three = await gateway.create(talk({ input: [refer(two.output[0]?.id), USER] }));
    await gateway.send('DELETE', `/${two.id}`);
    const half = await gateway.create({
      model: 'two',
      tools: [TOOL],
      previous_response_id: asked.id,
      input: [answer(request, true)],
    });
    const behind = { previous_response_id: three.id };
    expect(await resolves(list?.id, behind)).toBe(true);
    expect(await resolves(two.output[0]?.id, behind)).toBe(false);
    expect(half.output[0]?.type).toBe('mcp_call');
    expect(await resolves(half.output[0]?.id, behind)).toBe(false);
  });

  it('takes precedence over items sent by value: items of other chains count as the client sends them', async () => {
    const one = await gateway.create(talk({ input: 'a' }));
    const other = await gateway.create(talk({ input: 'b' }));
    const startOf = async (input: readonly unknown[]) => {
      const response = await gateway.create(talk({ input: [...input, USER] }));
      const [started] = await gateway.store.read(runOf(response));
      return started?.event.type === 'run.started' ? started.event.input : [];
    };
    const played = { opaque: { provider: 'scripted' } };
    const mixed = await startOf([USER, refer(one.output[0]?.id), USER, other.output[0]]);
    expect(mixed).toMatchObject([{}, played, {}, { role: 'assistant' }, {}]);
    expect(mixed[3]).not.toHaveProperty('opaque');
    expect((await startOf([USER, one.output[0]]))[1]).toMatchObject(played);
    const two = await gateway.create(talk({ input: [USER, one.output[0], USER] }));
    for (const first of [one.output[0], refer(one.output[0]?.id)]) {
      const whole = await startOf([USER, first, USER, two.output[0]]);
      expect(whole).toMatchObject([{}, played, {}, played, {}]);
    }
  });

  it('resolves to nothing of another agent, even one with the same name', async () => {
    const { store } = gateway;
    const begun = await gateway.create(talk({ input: 'a' }));
    const [start] = await store.read(runOf(begun));
    const launch = start?.event.type === 'run.started' ? start.event.launch : undefined;
    for (const name of ['clerk', 'responses']) {
      const agent = createAgent({ name, model: scripted([{ text: 'Their secret.' }]), store });
      const run = await agent.start([{ type: 'message', role: 'user', content: [], id: `item_of_${name}` }], {
        ...(name === 'clerk' && launch !== undefined ? { launch } : {}),
      });
      await run.settled();
      const said = (await store.read(run.id)).flatMap(({ event }) =>
        event.type === 'turn.completed' ? event.items : [],
      );
      const ids = [
        `item_of_${name}`,
        ...said.map(({ id }) => id),
        run.id.replace('run_', 'msg_').concat('_1_0'),
      ];
      for (const id of ids) {
        expect(await resolves(id)).toBe(false);
        expect(await resolves(id, { previous_response_id: begun.id })).toBe(false);
      }
      expect((await gateway.send('GET', `/${run.id.replace('run_', 'resp_')}`)).status).toBe(404);
    }
  });

  it('resolves to nothing of a response that is not stored, even in its own run', async () => {
    const { asked, request } = await ask();
    const half = await gateway.create({
      model: 'two',
      tools: [TOOL],
      previous_response_id: asked.id,
      store: false,
      input: [answer(request, true)],
    });
    expect(typesOf(half.output)).toEqual(['mcp_call', 'mcp_approval_request']);
    expect(await resolves(half.output[0]?.id)).toBe(false);
    expect(await resolves(half.output[0]?.id, { previous_response_id: asked.id })).toBe(false);
  });
});

describe('a response that is deleted', () => {
  const resolves = async (id: string | null | undefined, more: object = {}) =>
    (
      await gateway.send('POST', '', {
        model: 'talk',
        input: [{ type: 'item_reference', id }, USER],
        ...more,
      })
    ).status === 200;

  it('deletes its input items too, also for responses that continue it', async () => {
    const one = await gateway.create({ model: 'talk', input: 'a' });
    const two = await gateway.create({ model: 'talk', input: 'b', previous_response_id: one.id });
    const { data } = await gateway.read<Page>(`/${one.id}/input_items`);
    const behind = { previous_response_id: two.id };
    expect(await resolves(data[0]?.id, behind)).toBe(true);
    await gateway.send('DELETE', `/${one.id}`);
    for (const id of [data[0]?.id, one.output[0]?.id]) {
      expect(await resolves(id, behind)).toBe(false);
      expect(await resolves(id)).toBe(false);
    }
  });

  it('deletes its own items, and none of the earlier and later responses of its run', async () => {
    const { asked, request } = await ask();
    const half = await gateway.create({
      model: 'two',
      tools: [TOOL],
      previous_response_id: asked.id,
      input: [answer(request, true)],
    });
    expect(typesOf(half.output)).toEqual(['mcp_call', 'mcp_approval_request']);
    const call = half.output[0];
    await gateway.send('DELETE', `/${asked.id}`);
    const behind = { model: 'two', tools: [TOOL], previous_response_id: half.id };
    const again = await gateway.refused({ ...behind, input: [request, answer(request, true)] });
    expect(again.code).toBe('approval_continuation_invalid');
    const done = await gateway.create({ ...behind, input: [answer(half.output[1], true)] });
    expect(await resolves(call?.id, { previous_response_id: done.id })).toBe(true);
    await gateway.send('DELETE', `/${half.id}`);
    expect(await resolves(call?.id, { previous_response_id: done.id })).toBe(false);
  });

  it('is found under no other spelling of its id, before and after', async () => {
    const one = await gateway.create({ model: 'talk', input: 'a' });
    for (const id of [`${one.id}_1`, `${one.id}_01`, `${one.id}_2`]) {
      expect((await gateway.send('GET', `/${id}`)).status).toBe(404);
      expect((await gateway.send('DELETE', `/${id}`)).status).toBe(404);
    }
    expect((await gateway.get(one.id)).id).toBe(one.id);
  });

  it('while in progress is gone immediately, and its run ends', async () => {
    const response = await gateway.send('POST', '', { model: 'slow', input: 'a', stream: true });
    const reader = response.body?.getReader();
    const first = new TextDecoder().decode((await reader?.read())?.value);
    const [, id = ''] = /"id":"(resp_\w+)"/.exec(first) ?? [];
    expect((await gateway.send('DELETE', `/${id}`)).status).toBe(200);
    expect((await gateway.send('GET', `/${id}`)).status).toBe(404);
    expect((await gateway.send('GET', `/${id}/input_items`)).status).toBe(404);
    await expect.poll(async () => (await gateway.store.get(runOf({ id })))?.status).toBe('cancelled');
    await reader?.cancel();
  });
});
