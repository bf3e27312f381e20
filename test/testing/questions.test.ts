import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent } from '../../agent/agent.ts';
import { recordRun } from '../../engine/replay/record-run.ts';
import type { Store } from '../../protocol/store.ts';
import type { SideEffect, Tool } from '../../protocol/tool.ts';
import { memory } from '../../stores/memory.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { playRun } from '../../testing/play/play-run.ts';
import { type RegressOptions, regress } from '../../testing/regress/regress.ts';
import type { Ask } from '../../tools/ask.ts';
import { tool } from '../../tools/tool.ts';
import { calls } from '../support/engine/agents.ts';

type Asks = (given: { ask: Ask }) => unknown;
type Booking = { prepare?: Asks; run?: Asks; sideEffect?: SideEffect; input?: Record<string, number> };

const question = (key: string, message = `${key}?`) => ({ key, message, schema: z.string() });

function makeDesk(
  { prepare, run, sideEffect = 'once', input = {} }: Booking,
  store: Store = memory(),
): Agent {
  const book = tool({
    name: 'book',
    description: 'Books.',
    input: z.looseObject({}),
    sideEffect,
    ...(prepare && { prepare }),
    run: async (_, { ask, prepared }) => ({ booked: run === undefined ? prepared : await run({ ask }) }),
  }) as Tool;
  return createAgent({
    name: 'desk',
    store,
    model: scripted([calls(['book', input]), { text: 'Done.' }]),
    tools: [book],
  });
}

/** Records a run whose questions Ann answers with their keys in capitals, or declines. */
async function record(booking: Booking, decline: readonly string[] = []): Promise<Store> {
  const store = memory();
  const run = await makeDesk(booking, store).start('go');
  for (let settled = await run.settled(); settled.status === 'waiting'; settled = await run.settled()) {
    const [open] = settled.questions;
    const keys = (open?.questions ?? []).map(({ key }) => key);
    if (keys.every(key => decline.includes(key))) await run.reject(open ?? '', { reason: 'no', by: 'ann' });
    else {
      const answers = Object.fromEntries(
        keys.filter(key => !decline.includes(key)).map(key => [key, key.toUpperCase()]),
      );
      await run.answer(open ?? '', { answers, by: 'ann' });
    }
  }
  return store;
}

async function compare(was: Booking, is: Booking, options: RegressOptions & { decline?: string[] } = {}) {
  const { decline, ...given } = options;
  const store = await record(was, decline);
  return await regress(makeDesk(is), { runs: { store }, ...given });
}

const both: Asks = ({ ask }) => Promise.all([ask(question('a')), ask(question('b'))]);
const inTurn: Asks = async ({ ask }) => [await ask(question('a')), await ask(question('b'))];

describe('regress', () => {
  test.each([
    ['at once', both, both],
    ['one after the other, and at once before', both, inTurn],
    ['at once, and one after the other before', inTurn, both],
  ])('gives recorded answers to equal questions: %s', async (_, was, is) => {
    const report = await compare({ prepare: was }, { prepare: is });
    expect(report).toMatchObject({ runs: 1, same: 1, differences: [], complete: true });
  });

  test('gives recorded answers to a tool that is executed and asks while it runs', async () => {
    const asks: Booking = { run: both, sideEffect: 'none' };
    expect(await compare(asks, asks)).toMatchObject({ same: 1, differences: [] });
    const other = { run: inTurn, sideEffect: 'none', input: { table: 2 } } as const;
    const executed = await compare(asks, other, { execute: ['book'] });
    expect(executed.differences).toMatchObject([{ kind: 'input' }]);
    expect(executed.turns).toEqual({ recorded: 2, candidate: 2 });
    const fresh: Asks = ({ ask }) => ask(question('c'));
    const stopped = await compare(asks, { ...other, run: fresh }, { execute: ['book'] });
    expect(stopped).toMatchObject({ otherEffects: 1, differences: [{ kind: 'input' }] });
  });

  test('repeats that people declined, and that nobody answered in time', async () => {
    const { differences } = await compare({ prepare: both }, { prepare: both }, { decline: ['a', 'b'] });
    expect(differences).toEqual([]);
    const host = new ManualHost();
    const store = memory();
    const expiring: Asks = ({ ask }) => ask({ ...question('a'), expiresInMs: 60_000, fallback: 'none' });
    const desk = makeDesk({ prepare: expiring }, store);
    const run = await createAgent({ ...desk.options, host }).start('go');
    await host.settle(run.settled());
    await host.advance(60_000);
    expect((await host.settle(run.settled())).status).toBe('finished');
    const report = await regress(makeDesk({ prepare: expiring }), { runs: { store } });
    expect(report).toMatchObject({ runs: 1, same: 1, differences: [] });
  });

  test('reports another question as a difference of the decision, and goes no further', async () => {
    const other: Asks = ({ ask }) => ask(question('a', 'For how much?'));
    expect(await compare({ prepare: both }, { prepare: other })).toMatchObject({
      otherEffects: 1,
      differences: [
        { kind: 'decision', detail: expect.stringContaining('asks "For how much?"; it asked "a?"') },
      ],
    });
    const more = await compare({}, { prepare: both });
    expect(more.differences).toMatchObject([
      { kind: 'decision', detail: expect.stringContaining('asks "a?"; it did not') },
    ]);
    const none = await compare({ prepare: both }, {});
    expect(none.differences).toMatchObject([
      { kind: 'decision', detail: expect.stringContaining('does not ask "a?"; it did') },
    ]);
  });
});

describe('a recorded run with questions plays again', () => {
  test.each<[string, Booking]>([
    ['before the call began', { prepare: inTurn }],
    ['while it ran', { run: both, sideEffect: 'idempotent' }],
    [
      'with a fault',
      { prepare: ({ ask }) => ask({ ...question('a'), schema: z.string().refine(text => text.length > 1) }) },
    ],
  ])('%s: alone, and through the agent', async (name, booking) => {
    const store = memory();
    const agent = makeDesk(booking, store);
    const run = await agent.start('go');
    for (let round = 0, settled = await run.settled(); settled.status === 'waiting'; round += 1) {
      const [open] = settled.questions;
      const value = round === 0 && name === 'with a fault' ? 'x' : 'long';
      const keys = (open?.questions ?? []).map(({ key }) => [key, value]);
      expect(await run.answer(open ?? '', { answers: Object.fromEntries(keys) })).toEqual({ accepted: true });
      settled = await run.settled();
    }
    const { recording, outcome } = await recordRun(store, run.id);
    expect(outcome.status).toBe('finished');
    expect(await playRun(recording)).toEqual(outcome);
    expect(await playRun(recording, makeDesk(booking))).toEqual(outcome);
  });

  test('and fails when the agent asks something else', async () => {
    const store = await record({ prepare: both });
    const [{ runId = '' } = {}] = (await store.list()).runs;
    const { recording } = await recordRun(store, runId);
    const other = makeDesk({ prepare: ({ ask }) => ask(question('a', 'For how much?')) });
    await expect(playRun(recording, other)).rejects.toThrow('the tool asks "For how much?"');
  });
});
