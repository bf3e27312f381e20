import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import { calling, endOf, Gateway, type Page, type Resource, runOf } from '../../support/responses/gateway.ts';

const ASK = { type: 'function', name: 'ask', parameters: { type: 'object', properties: {} } };
const USER = { role: 'user', content: 'Begin.' };

let gateway: Gateway;

beforeAll(() => {
  gateway = new Gateway({
    talk: [{ reasoning: 'well', text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }, { text: 'Four.' }],
    ask: [calling('ask', { what: 'it' }), { text: 'Thanks.' }, { text: 'Bye.' }],
    long: Array.from({ length: 30 }, () => calling('ask')),
    slow: [{ text: 'Slowly said.', delayMs: 100 }],
    failing: [{ error: { code: 'invalid-request', message: 'no such thing', status: 400 } }],
    limited: [{ error: { code: 'rate-limit', message: 'too fast', retryable: false } }],
    cut: [{ text: 'It was a dark and', finishReason: 'length' }],
  });
});
afterAll(() => gateway.close());

function output(response: Resource, said: string): JsonObject {
  return { type: 'function_call_output', call_id: response.output.at(-1)?.call_id ?? '', output: said };
}

function textOf({ output }: Resource): string {
  return JSON.stringify(output.at(-1)?.content);
}

async function ask(): Promise<Resource> {
  return await gateway.create({ model: 'ask', input: [USER], tools: [ASK] });
}

describe('previous_response_id', () => {
  it('continues the conversation in a run that continues the earlier run', async () => {
    const one = await gateway.create({ model: 'talk', input: 'a' });
    const two = await gateway.create({ model: 'talk', input: 'b', previous_response_id: one.id });
    const three = await gateway.create({ model: 'talk', input: 'c', previous_response_id: two.id });
    expect([textOf(one), textOf(two), textOf(three)].join()).toMatch(/One.*Two.*Three/);
    expect(three.previous_response_id).toBe(two.id);
    const chain = await gateway.store.chain(runOf(three));
    expect(chain).toHaveLength(3);
  });

  it('may be used twice: the conversation branches', async () => {
    const one = await gateway.create({ model: 'talk', input: 'a' });
    const left = await gateway.create({ model: 'talk', input: 'b', previous_response_id: one.id });
    const right = await gateway.create({ model: 'talk', input: 'c', previous_response_id: one.id });
    expect(textOf(right)).toBe(textOf(left));
    expect(right.id).not.toBe(left.id);
  });

  it('of an unknown response is refused', async () => {
    for (const id of ['resp_0123', 'resp_nosuch_7', 'nonsense']) {
      const refused = await gateway.refused({ model: 'talk', input: 'a', previous_response_id: id });
      expect(refused).toMatchObject({
        status: 400,
        code: 'previous_response_not_found',
        param: 'previous_response_id',
        message: `Previous response with id '${id}' not found.`,
      });
    }
  });

  it('of a response that is not stored is refused, and the response cannot be retrieved', async () => {
    const one = await gateway.create({ model: 'talk', input: 'a', store: false });
    expect(one.store).toBe(false);
    expect((await gateway.send('GET', `/${one.id}`)).status).toBe(404);
    const refused = await gateway.refused({ model: 'talk', input: 'a', previous_response_id: one.id });
    expect(refused.code).toBe('previous_response_not_found');
    expect(await gateway.store.get(runOf(one))).toBeUndefined();
  });

  it('resumes the waiting run for a response that is not stored, which is then unknown', async () => {
    const asked = await ask();
    const done = await gateway.create({
      model: 'ask',
      tools: [ASK],
      store: false,
      previous_response_id: asked.id,
      input: [output(asked, 'yes')],
    });
    expect(textOf(done)).toContain('Thanks.');
    expect((await gateway.send('GET', `/${done.id}`)).status).toBe(404);
  });

  it('may precede a response that is not stored', async () => {
    const one = await gateway.create({ model: 'talk', input: 'a' });
    const two = await gateway.create({
      model: 'talk',
      input: 'b',
      previous_response_id: one.id,
      store: false,
    });
    expect(textOf(two)).toContain('Two.');
  });
});

describe('a function of the client', () => {
  it('is answered in the run that waits for it', async () => {
    const asked = await ask();
    const done = await gateway.create({
      model: 'ask',
      tools: [ASK],
      previous_response_id: asked.id,
      input: [output(asked, 'yes')],
    });
    expect(textOf(done)).toContain('Thanks.');
    expect(done.id).toMatch(new RegExp(`^${asked.id}_\\d+$`));
    expect(await gateway.get(asked.id)).toEqual(asked);
    expect(await gateway.get(done.id)).toEqual(done);
  });

  it('gets a second answer to the same response in a fork of its run', async () => {
    const asked = await ask();
    const request = { model: 'ask', tools: [ASK], previous_response_id: asked.id };
    const first = await gateway.create({ ...request, input: [output(asked, 'yes')] });
    const second = await gateway.create({ ...request, input: [output(asked, 'no')] });
    expect(textOf(second)).toBe(textOf(first));
    expect(second.id).not.toContain(asked.id);
    const third = await gateway.create({ model: 'ask', input: 'on', previous_response_id: second.id });
    expect(textOf(third)).toContain('Bye.');
    expect(await gateway.get(second.id)).toEqual(second);
  });

  it('must be answered before the conversation continues', async () => {
    const asked = await ask();
    const refused = await gateway.refused({ model: 'ask', previous_response_id: asked.id, input: 'Well?' });
    expect(refused).toMatchObject({
      status: 400,
      message: 'No tool output found for function call call_0_0.',
    });
    const other = { type: 'function_call_output', call_id: 'call_9_9', output: 'x' };
    const wrong = await gateway.refused({ model: 'ask', previous_response_id: asked.id, input: [other] });
    expect(wrong.message).toContain('No tool call found for function call output with call_id call_9_9.');
    const alone = await gateway.refused({ model: 'ask', input: [USER, other] });
    expect(alone.message).toContain('call_9_9');
  });

  it('may be answered in a history that the client keeps itself', async () => {
    const asked = await ask();
    const input = [USER, ...asked.output, output(asked, 'yes')];
    const done = await gateway.create({ model: 'ask', tools: [ASK], input });
    expect(textOf(done)).toContain('Thanks.');
  });

  it('may be called more often than a run has turns', async () => {
    let response = await gateway.create({ model: 'long', input: 'go', tools: [ASK] });
    for (let turn = 0; turn < 25; turn += 1) {
      response = await gateway.create({
        model: 'long',
        tools: [ASK],
        previous_response_id: response.id,
        input: [output(response, 'on')],
      });
    }
    expect(response.output).toMatchObject([{ type: 'function_call' }]);
    expect(response.incomplete_details).toBeNull();
  });
});

describe('an item that a client sends back', () => {
  it('keeps the bytes its provider needs, by reference and by value', async () => {
    const one = await gateway.create({ model: 'talk', input: [USER] });
    const references = one.output.map(({ id }) => ({ type: 'item_reference', id }));
    for (const known of [references, one.output]) {
      const two = await gateway.create({
        model: 'talk',
        input: [USER, ...known, { role: 'user', content: 'b' }],
      });
      expect(textOf(two)).toContain('Two.');
      const [started] = await gateway.store.read(runOf(two));
      expect(started?.event).toMatchObject({
        input: [
          { role: 'user' },
          { type: 'reasoning', opaque: { provider: 'scripted' } },
          { role: 'assistant', opaque: { provider: 'scripted', data: { turn: 0 } } },
          { role: 'user' },
        ],
      });
    }
  });

  it('keeps its bytes in encrypted_content if nothing is stored', async () => {
    const include = ['reasoning.encrypted_content'];
    const one = await gateway.create({ model: 'talk', input: [USER], store: false, include });
    expect(one.output[0]).toMatchObject({ type: 'reasoning', encrypted_content: expect.any(String) });
    const two = await gateway.create({
      model: 'talk',
      input: [USER, one.output[0], { role: 'user', content: 'b' }],
    });
    const [started] = await gateway.store.read(runOf(two));
    expect(started?.event).toMatchObject({
      input: [{}, { type: 'reasoning', text: 'well', opaque: { provider: 'scripted' } }, {}],
    });
  });

  it('counts as the client sends it when it was changed', async () => {
    const one = await gateway.create({ model: 'talk', input: [USER] });
    const changed = { ...one.output[1], content: [{ type: 'output_text', text: 'Other.' }] };
    const two = await gateway.create({
      model: 'talk',
      input: [USER, changed, { role: 'user', content: 'b' }],
    });
    const [started] = await gateway.store.read(runOf(two));
    expect(started?.event).toMatchObject({ input: [{}, { content: [{ text: 'Other.' }] }, {}] });
    expect(JSON.stringify(started)).not.toContain('One.');
  });

  it('is refused under an unknown id', async () => {
    const refused = await gateway.refused({
      model: 'talk',
      input: [USER, { type: 'item_reference', id: 'msg_nosuch' }],
    });
    expect(refused).toMatchObject({
      status: 400,
      code: 'item_not_found',
      param: 'input[1]',
      message: "Item with id 'msg_nosuch' not found.",
    });
  });
});

describe('a stored response', () => {
  it('is retrieved as it was returned, streamed or not', async () => {
    const whole = await gateway.create({ model: 'talk', input: 'a', metadata: { key: 'value' }, top_p: 0.5 });
    expect(await gateway.get(whole.id)).toEqual(whole);
    expect(whole).toMatchObject({ metadata: { key: 'value' }, top_p: 0.5 });
    const events = await gateway.stream({ model: 'talk', input: 'a' });
    expect(await gateway.get(endOf(events).id)).toEqual(endOf(events));
  });

  it('lists its own input items in pages, newest first', async () => {
    const input = ['a', 'b', 'c'].map(content => ({ role: 'user', content }));
    const one = await gateway.create({ model: 'talk', input });
    const list = async (query: string, id = one.id) => gateway.read<Page>(`/${id}/input_items${query}`);
    const all = await list('');
    expect(all).toMatchObject({ object: 'list', has_more: false });
    const texts = (page: Page) =>
      page.data.flatMap(({ content }) => (content as JsonObject[]).map(({ text }) => text));
    expect(texts(all)).toEqual(['c', 'b', 'a']);
    expect(texts(await list('?order=asc'))).toEqual(['a', 'b', 'c']);
    const page = await list('?order=asc&limit=2');
    expect(page.has_more).toBe(true);
    expect(texts(await list(`?order=asc&after=${page.last_id}`))).toEqual(['c']);
    const two = await gateway.create({ model: 'talk', input: 'd', previous_response_id: one.id });
    expect(texts(await list('', two.id))).toEqual(['d']);
    expect((await gateway.send('GET', `/${one.id}/input_items?limit=0`)).status).toBe(400);
    expect((await gateway.send('GET', `/${one.id}/input_items?after=msg_none`)).status).toBe(404);
  });

  it('is unknown once deleted, as are its items, and nothing can continue it', async () => {
    const one = await gateway.create({ model: 'talk', input: 'a' });
    const deleted = await gateway.send('DELETE', `/${one.id}`);
    expect(await deleted.json()).toEqual({ id: one.id, object: 'response.deleted', deleted: true });
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/input_items'],
    ] as const) {
      const response = await gateway.send(method, `/${one.id}${path}`);
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({
        error: { type: 'invalid_request_error', message: `Response with id '${one.id}' not found.` },
      });
    }
    const behind = await gateway.refused({ model: 'talk', input: 'b', previous_response_id: one.id });
    expect(behind.code).toBe('previous_response_not_found');
    const id = one.output[0]?.id ?? '';
    const item = await gateway.refused({ model: 'talk', input: [{ type: 'item_reference', id }] });
    expect(item.code).toBe('item_not_found');
  });

  it('ends its run when it is deleted while it waits', async () => {
    const asked = await ask();
    await gateway.send('DELETE', `/${asked.id}`);
    const record = await gateway.store.get(runOf(asked));
    expect(record?.status).toBe('cancelled');
  });
});

describe('a client that disconnects', () => {
  it('does not affect a stored response', async () => {
    const response = await gateway.send('POST', '', { model: 'slow', input: 'a', stream: true });
    const reader = response.body?.getReader();
    const first = new TextDecoder().decode((await reader?.read())?.value);
    await reader?.cancel();
    const [, id = ''] = /"id":"(resp_\w+)"/.exec(first) ?? [];
    await expect.poll(async () => (await gateway.get(id)).status).toBe('completed');
    expect(textOf(await gateway.get(id))).toContain('Slowly said.');
  });
});

describe('a run that does not finish normally', () => {
  it('is incomplete at the length limit', async () => {
    const events = await gateway.stream({ model: 'cut', input: 'a' });
    expect(events.at(-1)?.type).toBe('response.incomplete');
    expect(endOf(events)).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
    });
  });

  it.each([true, false])(
    'is an error that clients must not retry, and kept, with stream: %s',
    async stream => {
      const whole = await gateway.send('POST', '', { model: 'limited', input: 'a', stream });
      expect(whole.status).toBe(429);
      expect(whole.headers.get('x-should-retry')).toBe('false');
      expect(await whole.json()).toEqual({
        error: { message: 'too fast', type: 'rate_limit_error', code: 'rate_limit_exceeded', param: null },
      });
      const [run] = (await gateway.store.list({ limit: 1 })).runs;
      expect(await gateway.get(`${run?.runId}`.replace('run_', 'resp_'))).toMatchObject({
        status: 'failed',
        error: { code: 'rate_limit_exceeded', message: 'too fast' },
      });
      expect((await gateway.send('POST', '', { model: 'failing', input: 'a' })).status).toBe(400);
    },
  );
});
