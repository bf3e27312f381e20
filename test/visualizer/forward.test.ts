import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent, never, tool } from '../../agent/index.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { ExploreAgent } from '../../server/runs/explore-route.ts';
import { explore, exploreFrom, type Invariants } from '../../testing/index.ts';
import { sayReport } from '../../visualizer/describe-exploration.ts';
import { inAll } from '../support/sample.ts';
import { CHROMIUM } from '../support/visualizer/browser.ts';
import { makeDemoAgents } from '../support/visualizer/demo-agents.ts';
import { servePages } from '../support/visualizer/visits.ts';

/** An invariant that does not hold: a refused refund is asked for again. */
const invariants: Invariants = {
  'at most two lookups': ({ context }) => context.toolCalls < 4,
};

describe.skipIf(CHROMIUM === undefined)('what may still happen', () => {
  const demo = makeDemoAgents();
  const mail = tool({ name: 'mail', description: 'Mails.', input: z.object({}), run: () => null });
  const ruled = createAgent({
    name: 'ruled',
    model: scripted([]),
    tools: [mail],
    rules: [never('mail').after('untrused')],
    store: demo.store,
  });
  const agents = [...demo.agents, ruled];

  const exploreAgent: ExploreAgent = async function* (name, { run }) {
    const agent = agents.find(one => one.name === name) ?? expect.fail();
    yield { type: 'progress', states: 7 };
    const options = { invariants, maxStates: 120 };
    const entries = run === undefined ? [] : await demo.store.read(run.runId);
    const report =
      run === undefined
        ? explore(agent, { ...options, ...(agent !== ruled && { never: 'refund' }) })
        : exploreFrom(
            agent,
            entries.filter(({ seq }) => seq <= run.at),
            options,
          );
    yield { type: 'result', report: sayReport(report) as unknown as JsonObject };
  };

  const desk = servePages(agents, { exploreAgent });

  test('a counterexample played: over the run, with nothing executed, and saved as a test', async () => {
    const run = await desk.startAtRest('refunds', 'Pay Ada back.');
    const before = (await demo.store.read(run.id)).length;
    const watched = await desk.visit(`/runs/${run.id}?tab=ahead`);
    const { page } = watched;
    await page.getByRole('button', { name: `Explore from entry ${before}` }).click();
    const breach = page.locator('.breaches li');
    await breach.getByText('at most two lookups').waitFor();
    const ahead = page.locator('.explorer .states');
    await ahead.getByRole('button', { name: /executingTools/ }).waitFor();
    await page.getByText('waits for a decision now').waitFor();
    await expect.poll(() => page.locator('#state-executingTools.ahead').count()).toBe(1);
    await expect.poll(() => page.locator('#state-finished.ahead').count()).toBe(1);
    await expect
      .poll(() => page.locator('.facts-table').filter({ hasText: 'tool calls' }).textContent())
      .toContain('47');
    expect(await watched.findBarriers()).toEqual([]);

    const play = breach.getByRole('button', { name: /^Play \d+ entr/ });
    const count = Number(/\d+/.exec((await play.textContent()) ?? '')?.[0]);
    await play.click();
    const bar = page.locator('.example-bar');
    await bar.getByText('Counterexample: at most two lookups').waitFor();
    await expect
      .poll(() => bar.textContent())
      .toContain(`${count} ${count === 1 ? 'entry' : 'entries'}, nothing executed`);
    const place = page.locator('.strip output');
    await expect.poll(() => place.textContent()).toBe(`entry ${before + 1} of ${before + count}`);
    await page.locator('.journal .entry.chosen').waitFor();
    for (let step = 1; step < count; step += 1) await page.keyboard.press('ArrowRight');
    await expect.poll(() => place.textContent()).toBe(`entry ${before + count} of ${before + count}`);
    await expect.poll(() => page.locator('.state-diff').textContent()).toContain('toolCalls');
    await expect.poll(() => page.locator('.facts').textContent()).toMatch(/ \d+ ms at work/);
    await expect.poll(() => page.getByRole('button', { name: 'Approve', exact: true }).count()).toBe(0);
    await expect.poll(() => page.getByRole('button', { name: /Fork here/ }).count()).toBe(0);
    expect(await watched.findBarriers()).toEqual([]);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save as test' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe('breach.test.ts');
    const text = await readFile(await download.path(), 'utf8');
    expect(text).toContain('test("at most two lookups: holds on the path that broke it"');
    expect(text).toContain(`"runId": ${JSON.stringify(run.id)}`);

    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await breach.getByText('at most two lookups').waitFor();
    await ahead.getByRole('button', { name: /finished/ }).click();
    await page.locator('.example-bar').getByText('A way to finished').waitFor();
    await page.goBack();
    await breach.waitFor();
    expect((await demo.store.read(run.id)).length).toBe(before);
    expect(watched.problems).toEqual([]);
  });

  test('a rule that names a tag which no tool of the agent has is shown with a warning', async () => {
    const watched = await desk.visit('/agents/ruled');
    const { page } = watched;
    await page.getByRole('button', { name: 'Explore', exact: true }).click();
    const notes = page.locator('.explorer .notes').first();
    await notes
      .getByText('rule never mail after untrused: no tool of ruled has the name or tag untrused')
      .waitFor();
    expect(watched.problems).toEqual([]);
  });

  inAll("an agent's counterexamples play from the start: of an invariant, and of a rule", async () => {
    const watched = await desk.visit('/agents/refunds');
    const { page } = watched;
    await page.getByRole('button', { name: 'Explore', exact: true }).click();
    await page.getByText('all choices: what follows').waitFor();
    await page.getByRole('button', { name: 'Explore 160,000 states' }).waitFor();
    const breachOf = (name: string) => page.locator('.breaches li').filter({ hasText: name });
    const play = { name: /^Play \d+ entries/ };
    await breachOf('at most two lookups').getByRole('button', play).click();
    await page.locator('.example-bar').getByText('Counterexample: at most two lookups').waitFor();
    await page.locator('.journal').getByText('run.started').waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Exploration' }).waitFor();
    await breachOf('rule never refund').getByRole('button', play).click();
    await page.locator('.example-bar').getByText('Counterexample: rule never refund').waitFor();
    await page.locator('.journal').getByText('tool.started').waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Exploration' }).waitFor();
    expect(watched.problems).toEqual([]);
  });
});
