import { expect, it } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/index.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { hostedOn, serveOn } from '../../support/restate/hosted.ts';
import { RestateStandIn } from '../../support/restate/restate-stand-in.ts';

const FILLER = 'x'.repeat(500);

/** A run with so many rounds of calls, each with a result of some size. */
async function measure(rounds: number) {
  const restate = new RestateStandIn();
  const make = () =>
    createAgent({
      name: 'long',
      model: scripted([...Array.from({ length: rounds }, () => calls('read')), { text: 'Done.' }]),
      tools: [makeTool('read', { sideEffect: 'none', run: () => FILLER })],
      limits: { turns: 10_000, toolCalls: 10_000 },
    });
  serveOn(restate, [make()]);
  const run = await hostedOn(restate, make()).start('Read.');
  expect((await run.settled()).status).toBe('finished');
  expect(restate.faults).toEqual([]);
  return { written: restate.written, snapshots: restate.invoked.get('saveSnapshot') ?? 0 };
}

it('what a run writes grows with its journal: entries are written once, and snapshots are spaced', async () => {
  const [short, long] = [await measure(50), await measure(200)];
  expect(long.written / short.written).toBeLessThan(4.6);
  expect(long.snapshots).toBeGreaterThan(0);
  expect(long.snapshots).toBeLessThan(5);
});

it('lists runs from their records: status, labels, cursor', async () => {
  const restate = new RestateStandIn();
  const make = () => createAgent({ name: 'listed', model: scripted([{ text: 'Hello.' }]) });
  serveOn(restate, [make()]);
  const agent = hostedOn(restate, make());
  const { store } = agent;
  for (const title of ['one', 'two', 'three'])
    await (await agent.start('Go.', { title, labels: { user: '7' } })).settled();
  const first = await store.list({ labels: { user: '7' }, order: 'asc', limit: 2 });
  const second = await store.list({
    labels: { user: '7' },
    order: 'asc',
    limit: 2,
    cursor: first.next ?? '',
  });
  expect([...first.runs, ...second.runs].map(({ title, status }) => `${title} ${status}`)).toEqual([
    'one finished',
    'two finished',
    'three finished',
  ]);
  expect(await store.count?.()).toMatchObject({ finished: 3, running: 0 });
});

it('shares the text of a turn with readers elsewhere, beside the journal', async () => {
  const restate = new RestateStandIn();
  const text = Array.from({ length: 30 }, (_, index) => `word${index}`).join(' ');
  const make = () => createAgent({ name: 'talking', model: scripted([{ text, delayMs: 1_200 }]) });
  serveOn(restate, [make()]);
  const run = await hostedOn(restate, make()).start('Talk.');
  const pieces: string[] = [];
  for await (const piece of run.text()) pieces.push(piece);
  expect(pieces.length).toBeGreaterThan(0);
  expect(text.startsWith(pieces.join(''))).toBe(true);
  expect(await run.settled()).toMatchObject({ status: 'finished', text });
  expect(restate.faults).toEqual([]);
});
