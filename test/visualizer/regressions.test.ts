import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { scripted } from '../../adapters/scripted.ts';
import { type Agent, createAgent, memory, type Store, tool } from '../../agent/index.ts';
import type { PlayedNote } from '../../regress/played-run.ts';
import { makeNote, playRun } from '../support/regress/played-runs.ts';
import { CHROMIUM, type WatchedPage } from '../support/visualizer/browser.ts';
import { HOSTILE } from '../support/visualizer/demo-agents.ts';
import { servePages } from '../support/visualizer/visits.ts';

const tools = [
  tool({
    name: 'lookup_order',
    description: 'Looks an order up.',
    input: z.object({ orderId: z.string() }),
    sideEffect: 'none',
    run: () => ({ cents: 4200 }),
  }),
  tool({
    name: 'refund',
    description: 'Pays back.',
    input: z.object({ orderId: z.string(), cents: z.number() }),
    approval: true,
    run: ({ cents }) => ({ refunded: cents }),
  }),
];

const call = (name: string, input: Record<string, string | number>): ScriptedTurn => ({
  toolCalls: [{ name, arguments: input }],
});
const LOOKUP = call('lookup_order', { orderId: 'A-1' });
const PAID: ScriptedTurn = { text: 'It is paid.' };

const makeAgent = (store: Store, ...turns: ScriptedTurn[]): Agent =>
  createAgent({ name: 'support', model: scripted(turns), limits: { turns: 60 }, tools, store });

describe.skipIf(CHROMIUM === undefined)('the view of regressions', () => {
  let store: Store;
  const desk = servePages(() => {
    store = memory();
    return [makeAgent(store, PAID)];
  });

  async function record(title: string): Promise<string> {
    const run = await makeAgent(store, LOOKUP, PAID).start('go', { title });
    await run.settled();
    return run.id;
  }

  const play = (of: string, turns: ScriptedTurn[], changes: Partial<PlayedNote> = {}) =>
    playRun(makeAgent(store, ...turns), 'go', makeNote(of, changes));

  const NEW_REFUND = {
    kind: 'new-call',
    turn: 2,
    tool: 'refund',
    sideEffect: 'once',
    detail: 'refund {"orderId":"A-1","cents":4200} is new',
  } as const;
  const OTHER_INPUT = {
    kind: 'input',
    turn: 1,
    tool: 'lookup_order',
    sideEffect: 'none',
    detail: 'lookup_order {"orderId":"B-2"} (was {"orderId":"A-1"})',
  } as const;

  /** Two samples of each of three recordings; the second sample of the first pays, and the third looks up another order. */
  async function playAll(): Promise<{ paid: string; paying: string }> {
    const [hello, paid, lookup] = [
      await record('Say hello'),
      await record('Is it paid?'),
      await record('Look up'),
    ];
    let paying = '';
    for (const sample of [1, 2]) {
      await play(hello, [LOOKUP, PAID], { sample });
      if (sample === 1) await play(paid, [LOOKUP, PAID], { sample, sameness: 'sameEffects' });
      else
        paying = await play(paid, [LOOKUP, call('refund', { orderId: 'A-1', cents: 4200 })], {
          sample,
          differences: [NEW_REFUND],
          stopped: true,
        });
      await play(lookup, [call('lookup_order', { orderId: 'B-2' }), PAID], {
        sample,
        differences: [OTHER_INPUT],
      });
    }
    const side = 'baseline';
    await play(hello, [LOOKUP, PAID], { side });
    await play(lookup, [call('lookup_order', { orderId: 'B-2' }), PAID], {
      side,
      differences: [OTHER_INPUT],
    });
    return { paid, paying };
  }

  const rowsOf = ({ page }: WatchedPage) => page.locator('.runs .row');

  async function readRows(watched: WatchedPage): Promise<string[]> {
    await rowsOf(watched).first().waitFor();
    const texts = await rowsOf(watched).allInnerTexts();
    return texts.map(text => text.replaceAll(/\s+/g, ' ').trim());
  }

  test('the runs that must be looked at are first, with their samples, beside the noise of the baseline', async () => {
    await playAll();
    const watched = await desk.visit('/runs');
    await watched.page.getByRole('link', { name: 'Regressions' }).click();
    const rows = await readRows(watched);
    const was = 'turn 1: lookup_order {"orderId":"B-2"} (was {"orderId":"A-1"})';
    expect(rows).toEqual([
      `other effects sample 2 Is it paid? turn 2: ${NEW_REFUND.detail} stopped`,
      'same effects sample 1 Is it paid? only the text differs 2 $0.0123 → $0.0090',
      `other effects sample 1 Look up noise ${was} 2 $0.0123 → $0.0090`,
      `other effects sample 2 Look up noise ${was} 2 $0.0123 → $0.0090`,
      `other effects baseline Look up ${was} 2 $0.0123 → $0.0090`,
      'same sample 1 Say hello 2 $0.0123 → $0.0090',
      'same sample 2 Say hello 2 $0.0123 → $0.0090',
    ]);
    const totals = await watched.page.getByText('3 recorded runs').innerText();
    expect(totals).toBe(
      '3 recorded runs · cost $0.0123 → $0.0090, −26.8 % (−26.8 % to −26.8 %) · turns 2.0 · tokens 1,200 → 900, −25.0 % (−25.0 % to −25.0 %) · noise: the baseline differs in 1 of 2 runs',
    );
    const buttons = await watched.page
      .getByRole('group', { name: 'Recorded runs' })
      .getByRole('button')
      .allInnerTexts();
    expect(buttons).toEqual(['all 3', 'other effects 2', 'undecidable 0', 'same effects 0', 'same 1']);
    expect(watched.problems).toEqual([]);
  });

  test('filters are in the address, so that a link shows the same rows', async () => {
    await playAll();
    const watched = await desk.visit('/regressions');
    const { page } = watched;
    await page.getByLabel('Kind of difference').selectOption('other input');
    await expect.poll(() => rowsOf(watched).count()).toBe(3);
    await page.getByText('noise: the baseline differs so in 1 of 2 runs').waitFor();
    await page.getByLabel('Tool').selectOption('refund');
    await page.getByText('No played runs match.').waitFor();
    await page.getByLabel('Kind of difference').selectOption('any difference');
    await expect.poll(() => rowsOf(watched).count()).toBe(1);
    expect(new URL(page.url()).search).toBe('?tool=refund');
    await page.getByLabel('Tool').selectOption('any tool');
    await page.getByRole('button', { name: 'same 1' }).click();
    expect(new URL(page.url()).search).toBe('?sameness=same');
    await page.reload();
    const hello = expect.stringContaining('Say hello');
    expect(await readRows(watched)).toEqual([hello, hello]);
    await expect
      .poll(() => page.getByRole('button', { name: 'same 1' }).getAttribute('aria-pressed'))
      .toBe('true');
    await page.goto(`${desk.url}/regressions?kind=constructor&tool=gone`);
    await page.getByText('No played runs match.').waitFor();
    await expect.poll(() => page.getByLabel('Tool').inputValue()).toBe('gone');
  });

  test('a row opens both runs at the difference that it shows, by the keyboard alone', async () => {
    const { paid, paying } = await playAll();
    const watched = await desk.visit('/regressions');
    const { page } = watched;
    await readRows(watched);
    for (const key of ['j', 'j', 'k', 'j', 'k', 'Enter']) await page.keyboard.press(key);
    await page.waitForURL(url => url.pathname === `/compare/${paid}..${paying}`);
    const row = page.locator('.aligned-row.is-first');
    await row.waitFor();
    await expect
      .poll(() => row.innerText())
      .toMatch(/turn\.completed[\s\S]*stop[\s\S]*turn\.completed[\s\S]*calls refund/);
    const sight = await row.boundingBox();
    expect((sight?.y ?? -1) >= 0 && (sight?.y ?? 0) + (sight?.height ?? 0) <= 800).toBe(true);
    const differences = page.getByRole('list', { name: 'What differs' }).getByRole('listitem');
    await expect
      .poll(() => differences.allInnerTexts())
      .toEqual([expect.stringContaining(NEW_REFUND.detail)]);
    await page.getByText(/candidate, sample 2, played from/).waitFor();
    await page.goBack();
    await expect.poll(() => page.evaluate('document.activeElement.innerText')).toContain(NEW_REFUND.detail);
    expect(watched.problems).toEqual([]);
  });

  test('each difference leads to its row, also far down, and what always differs is no difference', async () => {
    const long = Array.from({ length: 40 }, () => LOOKUP);
    const run = await makeAgent(store, ...long, PAID).start('go');
    await run.settled();
    const usage = { inputTokens: 7, outputTokens: 7 };
    const other = [...long.slice(0, 29), call('lookup_order', { orderId: 'B-2' }), ...long.slice(30)];
    const turns = [...other, PAID].map(turn => ({ ...turn, usage }));
    const candidate = await play(run.id, turns, {
      differences: [
        { ...OTHER_INPUT, turn: 30 },
        { kind: 'end', turn: 41, detail: 'it ended in another way' },
      ],
    });
    const { page } = await desk.visit(`/compare/${run.id}..${candidate}`);
    await page.getByRole('button', { name: 'Turn 30' }).waitFor();
    const row = page.locator('.aligned-row.is-first');
    await row.waitFor();
    const entries = await store.read(candidate);
    const seqOfTurn = (turn: number) =>
      entries.filter(({ event }) => event.type === 'turn.completed')[turn - 1]?.seq;
    await expect
      .poll(() => row.locator('.seq').allInnerTexts())
      .toEqual([`${seqOfTurn(30)}`, `${seqOfTurn(30)}`]);
    await expect.poll(() => page.locator('.aligned-row:not(.is-same)').count()).toBe(1);
    await page.getByRole('button', { name: 'Turn 41' }).click();
    await expect.poll(() => row.locator('.seq').first().innerText()).toBe(`${seqOfTurn(41)}`);
    expect(new URL(page.url()).search).toBe('?difference=2');
    const box = await row.boundingBox();
    expect((box?.y ?? 801) + (box?.height ?? 0)).toBeLessThanOrEqual(800);
  });

  test('another decision leads to the entry of the decision', async () => {
    const turns = [call('refund', { orderId: 'A-1', cents: 4200 }), PAID];
    const [recorded, played] = [makeAgent(store, ...turns), makeAgent(store, ...turns)];
    const run = await recorded.start('go');
    await run.settled();
    await run.approve('call_0_0');
    await run.settled();
    const { tool, sideEffect } = NEW_REFUND;
    const detail = 'refund was rejected (was approved)';
    const differences = [{ kind: 'decision' as const, turn: 1, tool, sideEffect, detail }];
    const id = await playRun(played, 'go', makeNote(run.id, { differences }));
    const candidate = await played.open(id);
    await candidate.reject('call_0_0');
    await candidate.settled();
    const { page } = await desk.visit(`/compare/${run.id}..${id}`);
    const row = page.locator('.aligned-row.is-first');
    await row.waitFor();
    await expect
      .poll(() => row.innerText())
      .toMatch(/approval\.decided[\s\S]*approved[\s\S]*approval\.decided[\s\S]*rejected/);
  });

  test('a store without played runs has no entry in the navigation, and the view says how they are made', async () => {
    await record('Say hello');
    const watched = await desk.visit('/regressions');
    const { page } = watched;
    await page.getByText('agentchart regress --agent MODULE --db SOURCE --out FILE').waitFor();
    const asked = page.waitForResponse(response => response.url().endsWith('/regressions?limit=1'));
    await page.goto(`${desk.url}/runs`);
    await asked;
    await page.getByText('Say hello').waitFor();
    await expect
      .poll(() => page.getByRole('navigation').getByRole('link', { name: 'Regressions' }).count())
      .toBe(0);
    expect(watched.problems).toEqual([]);
  });

  test('hostile texts stay texts, and nothing is wider than a phone', async () => {
    const title = HOSTILE.markup.slice(0, 190);
    const run = await makeAgent(store, LOOKUP, PAID).start('go', { title });
    await run.settled();
    const detail = `${HOSTILE.markup} ${HOSTILE.order} ${HOSTILE.ansi}`;
    const candidate = await play(run.id, [LOOKUP, PAID], {
      differences: [{ kind: 'new-call', turn: 1, tool: HOSTILE.markup, detail }],
    });
    for (const path of ['/regressions', `/compare/${run.id}..${candidate}`]) {
      const watched = await desk.visit(path, { width: 390 });
      await watched.page.locator('main bdi', { hasText: '<img src=' }).first().waitFor();
      expect(await watched.page.evaluate('window.owned ?? document.title')).not.toBe('owned');
      await expect.poll(() => watched.page.locator('img').count()).toBe(0);
      expect(await watched.page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
      expect(watched.problems).toEqual([]);
    }
  });
});
