import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../../protocol/store.ts';
import { type Serving, serveRuns } from '../../../server/serve.ts';
import { memory } from '../../../stores/memory.ts';
import { ClientSocket } from '../../support/responses/client-socket.ts';
import { calling, endOf, Gateway, type Resource, runOf } from '../../support/responses/gateway.ts';

const USER = { role: 'user', content: 'go' };
const ASK = { type: 'function', name: 'ask', parameters: { type: 'object' } };
const DESK = [{ type: 'mcp', server_label: 'desk' }];
const UNSTORED = { model: 'talk', input: [USER], store: false };

let store: Store;
let gateway: Gateway;
let before: Gateway[] = [];

function start(keeps = true): Gateway {
  gateway = new Gateway(
    {
      talk: [{ text: 'One.' }, { text: 'Two.' }, { text: 'Three.' }],
      ask: [calling('ask'), { text: 'Thanks.' }],
      approve: [calling('echo', { text: 'hi' }), { text: 'Said.' }],
    },
    {
      store,
      config: folder => ({
        mcp_servers: { desk: folder.server({ require_approval: 'always' }) },
        keep_unstored: keeps,
      }),
    },
  );
  before.push(gateway);
  return gateway;
}

beforeEach(() => {
  store = memory();
  start();
});
afterEach(async () => {
  for (const each of before) await each.close();
  before = [];
});

const listed = async () => (await store.list()).runs.map(({ runId, status }) => ({ runId, status }));

/** The status of every way in which a request can name a response, with the code of its error. */
async function waysTo({ id, output: [item] }: Resource) {
  const named = { model: 'talk', input: [{ role: 'user', content: 'more' }] };
  const answers = [
    await gateway.send('GET', `/${id}`),
    await gateway.send('GET', `/${id}?stream=true`),
    await gateway.send('GET', `/${id}/input_items`),
    await gateway.send('POST', `/${id}/cancel`),
    await gateway.send('DELETE', `/${id}`),
    await gateway.send('POST', '', { ...named, previous_response_id: id }),
    await gateway.send('POST', '', { ...named, input: [{ type: 'item_reference', id: item?.id }, USER] }),
    await gateway.send('POST', '/compact', { ...named, previous_response_id: id }),
    await gateway.send('POST', '/input_tokens', { ...named, previous_response_id: id }),
  ];
  return await Promise.all(
    answers.map(async answer => [
      answer.status,
      ((await answer.json()) as { error?: { code: string } }).error?.code,
    ]),
  );
}

const NOT_FOUND = [
  ...Array.from({ length: 5 }, () => [404, 'response_not_found']),
  [400, 'previous_response_not_found'],
  [400, 'item_not_found'],
  [400, 'previous_response_not_found'],
  [400, 'previous_response_not_found'],
];

describe('with keep_unstored, the run of a request with store: false', () => {
  it('is in the store, also when the server starts again', async () => {
    const one = await gateway.create(UNSTORED);
    expect(await listed()).toEqual([{ runId: runOf(one), status: 'finished' }]);
    start();
    expect(await gateway.run(one)).toMatchObject({ status: 'finished', title: 'go' });
  });

  it('is found by no request of its own caller, not even when the server starts again', async () => {
    const one = await gateway.create(UNSTORED);
    expect(await waysTo(one)).toEqual(NOT_FOUND);
    const asked = await gateway.create({ ...UNSTORED, model: 'ask', tools: [ASK] });
    expect(await waysTo(asked)).toEqual(NOT_FOUND);
    start();
    expect(await waysTo(one)).toEqual(NOT_FOUND);
    expect(await waysTo(asked)).toEqual(NOT_FOUND);
    start(false);
    expect(await waysTo(one)).toEqual(NOT_FOUND);
  });

  it('is not in the store without it', async () => {
    start(false);
    await gateway.create(UNSTORED);
    expect(await listed()).toEqual([]);
  });

  it('takes an approval as without it: while the server runs', async () => {
    const ask = async () => await gateway.create({ ...UNSTORED, model: 'approve', tools: DESK });
    const approve = ({ output }: Resource) => ({
      ...UNSTORED,
      model: 'approve',
      tools: DESK,
      input: [
        USER,
        ...output,
        { type: 'mcp_approval_response', approval_request_id: output.at(-1)?.id, approve: true },
      ],
    });
    for (const keeps of [true, false]) {
      start(keeps);
      const done = await gateway.create(approve(await ask()));
      expect(done.output.map(({ type }) => type)).toEqual(['mcp_call', 'message']);
      const asked = await ask();
      start(keeps);
      expect(await gateway.refused(approve(asked))).toMatchObject({ code: 'approval_continuation_invalid' });
    }
  });

  it('does not keep a later request with the same Idempotency-Key from its answer', async () => {
    const send = async () =>
      (await (await gateway.send('POST', '', UNSTORED, { 'idempotency-key': 'k' })).json()) as Resource;
    const first = await send();
    start();
    const second = await send();
    expect(second).toMatchObject({ status: 'completed' });
    expect(second.id).not.toBe(first.id);
    expect(await listed()).toHaveLength(2);
  });
});

describe('with keep_unstored, a chain of unstored responses on a socket', () => {
  let serving: Serving;
  beforeEach(async () => {
    serving = await serveRuns(gateway.app, { host: '127.0.0.1', port: 0 });
  });
  afterEach(() => serving.close());

  it('is a chain of runs, which requests find on their connection only', async () => {
    const socket = await ClientSocket.open(`${serving.url}/v1/responses`);
    const first = endOf(await socket.create(UNSTORED));
    const second = endOf(await socket.create({ ...UNSTORED, previous_response_id: first.id }));
    expect(second.output).toMatchObject([{ content: [{ text: 'Two.' }] }]);
    expect(await store.get(runOf(second))).toMatchObject({ continues: runOf(first) });
    expect(await waysTo(second)).toEqual(NOT_FOUND);
    const third = endOf(await socket.create({ ...UNSTORED, store: true, previous_response_id: second.id }));
    socket.close();
    start();
    expect((await gateway.get(third.id)).output).toEqual(third.output);
    expect(await waysTo(second)).toEqual(NOT_FOUND);
  });
});
