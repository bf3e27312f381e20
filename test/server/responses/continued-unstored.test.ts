import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { serveRuns } from '../../../server/serve.ts';
import { memory } from '../../../stores/memory.ts';
import { ClientSocket } from '../../support/responses/client-socket.ts';
import { endOf, Gateway, type Resource } from '../../support/responses/gateway.ts';

const FIRST = { id: 'msg_client_1', role: 'user', content: 'go' };
const LOOK = { type: 'function', name: 'look', parameters: { type: 'object' } };

let store: Store;
let gateway: Gateway;

beforeEach(() => {
  store = memory();
  gateway = new Gateway(
    {
      m: [
        {
          text: 'I look.',
          toolCalls: [
            { name: 'look', arguments: { at: 1 } },
            { name: 'look', arguments: { at: 2 } },
          ],
        },
        { toolCalls: [{ name: 'look', arguments: { at: 3 } }] },
        { text: 'Seen.' },
        { text: 'Once more.' },
      ],
      other: [{ text: 'I see.' }, { text: 'I see.' }],
    },
    { store, config: () => ({ keep_unstored: true }) },
  );
});
afterEach(() => gateway.close());

const ask = (input: readonly object[], more: object = {}) =>
  gateway.create({ model: 'm', input, tools: [LOOK], store: false, ...more });

/** What a client has after a response whose calls it carried out. */
function answer(input: readonly object[], { output }: Resource): JsonObject[] {
  const results = output.flatMap(({ type, call_id }) =>
    type === 'function_call' ? [{ type: 'function_call_output', call_id: call_id ?? '', output: 'ok' }] : [],
  );
  return [...input, ...output, ...results] as JsonObject[];
}

const listed = async () => (await store.list()).runs.map(({ status, turns }) => ({ status, turns }));

describe('requests with store: false that send the whole history', () => {
  it('are one run as long as they answer its calls, and the next prompt is another', async () => {
    let input: object[] = [FIRST];
    for (const status of ['waiting', 'waiting', 'finished']) {
      const response = await ask(input);
      input = answer(input, response);
      expect((await listed())[0]).toMatchObject({ status });
    }
    expect(await listed()).toEqual([{ status: 'finished', turns: 3 }]);
    const last = await ask([...input, { role: 'user', content: 'and now?' }]);
    expect(last.output).toMatchObject([{ content: [{ text: 'Once more.' }] }]);
    expect(await listed()).toHaveLength(2);
  });

  it('take a message beside the results', async () => {
    const input = answer([FIRST], await ask([FIRST]));
    await ask([...input, { role: 'user', content: 'hurry' }]);
    expect(await listed()).toEqual([{ status: 'waiting', turns: 2 }]);
    const [run] = (await store.list()).runs;
    const journal = JSON.stringify(await store.read(run?.runId ?? ''));
    expect(journal.match(/hurry/g)).toHaveLength(1);
  });

  it('are one run on a socket too, whether they send the history or name the last response', async () => {
    const serving = await serveRuns(gateway.app, { host: '127.0.0.1', port: 0 });
    const socket = await ClientSocket.open(`${serving.url}/v1/responses`);
    const send = async (body: object) =>
      endOf(await socket.create({ model: 'm', tools: [LOOK], store: false, ...body }));
    const second = await send({ input: answer([FIRST], await send({ input: [FIRST] })) });
    const results = answer([], second).filter(({ type }) => type === 'function_call_output');
    const third = await send({ input: results, previous_response_id: second.id });
    expect(third.output).toMatchObject([{ content: [{ text: 'Seen.' }] }]);
    expect(await listed()).toEqual([{ status: 'finished', turns: 3 }]);
    socket.close();
    await serving.close();
  });

  it('begin a new run with another model', async () => {
    const input = answer([FIRST], await ask([FIRST]));
    expect((await ask(input, { model: 'other' })).status).toBe('completed');
    expect(await listed()).toHaveLength(2);
  });

  it.each<[string, (input: JsonObject[]) => JsonObject[]]>([
    ['another beginning', ([, ...rest]) => [{ role: 'user', content: 'come' }, ...rest]],
    [
      'a changed call',
      input =>
        input.map(item =>
          item.call_id === 'call_0_0' && item.type === 'function_call'
            ? { ...item, arguments: '{"at":9}' }
            : item,
        ),
    ],
    [
      'a changed text',
      input =>
        input.map(item =>
          item.type === 'message' && item.role === 'assistant'
            ? { ...item, content: [{ type: 'output_text', text: 'No.', annotations: [] }] }
            : item,
        ),
    ],
    ['items without ids', input => input.map(({ id: _, ...item }) => item)],
  ])('begin a new run with %s', async (_, change) => {
    const input = answer([FIRST], await ask([FIRST]));
    const next = await ask(change(input));
    expect(next.status).toBe('completed');
    expect(await listed()).toHaveLength(2);
  });

  it('begin a new run for another caller, who only has the ids', async () => {
    const token = (name: string) => ({ token: `token-of-${name}-0000000`, role: 'client' });
    const shared = new Gateway(
      { m: [{ toolCalls: [{ name: 'look', arguments: {} }] }, { text: 'Seen.' }] },
      { store, config: () => ({ keep_unstored: true, tokens: { one: token('one'), two: token('two') } }) },
    );
    const send = async (name: string, input: readonly object[]) => {
      const headers = { authorization: `Bearer token-of-${name}-0000000` };
      const body = { model: 'm', input, tools: [LOOK], store: false };
      return (await (await shared.send('POST', '', body, headers)).json()) as Resource;
    };
    const input = answer([FIRST], await send('one', [FIRST]));
    expect((await send('two', input)).status).toBe('completed');
    expect(await listed()).toHaveLength(2);
    await shared.close();
  });
});
