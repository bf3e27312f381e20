import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, tool } from '../../../agent/index.ts';
import { callIdOf, type InboxItem } from '../../../protocol/run-view.ts';
import { memory } from '../../../stores/memory.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import { DONE, makeApp, REFUND, type TestApp, until } from '../../support/server/runs-app.ts';

type Page = { items: InboxItem[]; next?: string };

const read = async (desk: TestApp, query = '') =>
  (await (await desk.send('GET', `/inbox${query}`)).json()) as Page;

test('the inbox has every approval, question and doubt, and none that was decided', async () => {
  const toolCalls = ['ask_customer', 'charge'].map(name => ({ name, arguments: {} }));
  const turn = { toolCalls: [...(REFUND.toolCalls ?? []), ...toolCalls] };
  const desk = makeApp({ turns: [turn, DONE] });
  const { runId } = await desk.begin();
  const { items } = await read(desk);
  expect(items.map(({ kind, call }) => `${kind} ${'name' in call ? call.name : ''}`).sort()).toEqual([
    'approval refund',
    'doubt charge',
    'result ask_customer',
  ]);
  expect(items.every(item => item.runId === runId && item.rootId === runId && item.since > 0)).toBe(true);
  const refund = items.find(({ kind }) => kind === 'approval');
  await desk.send('POST', `/runs/${runId}/reject`, { callId: refund && callIdOf(refund.call) });
  expect((await read(desk)).items.map(({ kind }) => kind).sort()).toEqual(['doubt', 'result']);
});

test("a call's waiting time survives the decisions about its siblings, and a doubt begins its own", async () => {
  const toolCalls = ['ask_customer', 'charge'].map(name => ({ name, arguments: {} }));
  const desk = makeApp({ turns: [{ toolCalls: [...(REFUND.toolCalls ?? []), ...toolCalls] }, DONE] });
  const { runId } = await desk.begin();
  const { items } = await read(desk);
  const entries = await desk.store.read(runId);
  const at = (type: string) => entries.find(({ event }) => event.type === type)?.event.at;
  expect(new Map(items.map(({ kind, since }) => [kind, since]))).toEqual(
    new Map([
      ['approval', at('turn.completed')],
      ['result', at('turn.completed')],
      ['doubt', at('tool.doubted')],
    ]),
  );
  const decidedAfter = Date.now();
  await until(() => Date.now() > decidedAfter || undefined);
  const refund = items.find(({ kind }) => kind === 'approval');
  await desk.send('POST', `/runs/${runId}/reject`, { callId: refund && callIdOf(refund.call) });
  expect((await read(desk)).items).toEqual(items.filter(item => item !== refund));
});

test('a call of a sub-agent is in the inbox once, with the topmost run', async () => {
  const store = memory();
  const clerk = createAgent({
    name: 'clerk',
    model: scripted([REFUND, DONE]),
    tools: [
      tool({
        name: 'refund',
        description: 'Pays back.',
        input: z.object({ orderId: z.string(), cents: z.number() }),
        approval: true,
        run: () => 'paid',
      }),
    ],
    store,
  });
  const desk = makeApp({
    store,
    turns: [{ toolCalls: [{ name: 'clerk', arguments: { input: 'pay' } }] }, DONE],
    agent: { tools: [clerk.asTool({ name: 'clerk', description: 'Pays.' })] },
  });
  const { runId } = await desk.begin({ input: 'go', title: 'the family' });
  const { items } = await read(desk);
  expect(items).toHaveLength(1);
  expect(items[0]).toMatchObject({ kind: 'approval', rootId: runId, agent: 'clerk', title: 'the family' });
  expect(items[0]?.runId).not.toBe(runId);
});

test('pages have each item once, and only what this process does not know is loaded, once', async () => {
  const store = memory();
  let loads = 0;
  const load = store.loadSnapshot.bind(store);
  store.loadSnapshot = runId => {
    loads += 1;
    return load(runId);
  };
  const first = makeApp({ store: watchStore(store, {}) });
  const runs = new Set<string>();
  for (let index = 0; index < 7; index += 1) runs.add((await first.begin()).runId);
  const desk = makeApp({ store });
  loads = 0;
  const seen: string[] = [];
  let query = '?limit=3';
  for (;;) {
    const page = await read(desk, query);
    seen.push(...page.items.map(({ runId }) => runId));
    if (page.next === undefined) break;
    query = `?limit=3&cursor=${page.next}`;
  }
  expect([...seen].sort()).toEqual([...runs].sort());
  expect(loads).toBe(7);
  await read(desk);
  expect(loads).toBe(7);
  for (const wrong of ['?limit=0', '?limit=1000', '?cursor=x', '?other=1', '?label=x'])
    expect((await desk.send('GET', `/inbox${wrong}`)).status).toBe(400);
});
