import assert from 'node:assert/strict';
import type { Labels } from '../../../protocol/listing/label.ts';
import { CHROMIUM, launchChromium, WatchedPage } from '../../support/visualizer/browser.ts';
import type { Client } from '../client.ts';
import type { Desk } from '../desk.ts';
import type { WireName } from '../upstream/script.ts';
import { assertDone, CALLS, TURNS, task } from './long.ts';
import type { Scenario } from './scenario.ts';

/** The turns in whose middle something ends: the client by Ctrl-C or a kill, the gateway, or both. */
const [STOPPED, KILLED, RESTARTED, BOTH] = [6, 12, 18, 24];
/** How often the client is killed. */
const KILLS = 2;
const GO_ON = { continues: true };

/** A task of 30 turns that is interrupted four times, and what the page then shows of its session. */
export function resumed(client: Client, wire: WireName): Scenario {
  return {
    name: `${client.name}/${wire}/resumed`,
    client,
    wire,
    config: { keep_unstored: true },
    files: { 'notes.txt': 'line 0\n' },
    scripts: desk => [task(client, desk, [STOPPED, KILLED, RESTARTED, BOTH])],
    play: async desk => {
      const { upstream } = desk;
      const reaches = (turn: number) => upstream.until(seen => seen.some(one => one.turn === turn));
      const first = desk.begin('Change the files.');
      await reaches(STOPPED);
      first.signal('SIGINT');
      await first.ended;
      const second = desk.begin('Go on.', GO_ON);
      await reaches(KILLED);
      second.signal('SIGKILL');
      await second.ended;
      let third = desk.begin('And on.', GO_ON);
      await reaches(RESTARTED);
      await desk.killGateway();
      await desk.startGateway();
      await Promise.race([reaches(BOTH), third.ended]);
      if (!upstream.turns.some(({ turn }) => turn === BOTH)) third = desk.begin('And on.', GO_ON);
      await reaches(BOTH);
      third.signal('SIGKILL');
      await third.ended;
      await desk.killGateway();
      await desk.startGateway();
      assert.match((await desk.ask('To the end.', GO_ON)).stdout, /All is done\./);
      const paid = assertDone(desk);
      const shown = await assertShown(desk);
      return `${TURNS} turns, reasoning returned ${paid.at(-1)?.kept} times, ${shown}`;
    },
  };
}

/** All runs are of one session, none goes on, and its page has the whole conversation. */
async function assertShown(desk: Desk): Promise<string> {
  const runs: readonly { status: string; labels: Labels }[] = await desk.runs();
  assert.ok(!runs.some(({ status }) => status === 'running'), 'a run still goes on');
  const [session = '', ...others] = new Set(runs.map(({ labels }) => labels.session));
  assert.deepEqual(others, []);
  if (CHROMIUM === undefined) return 'the page unseen without a Chromium';
  await using browser = await launchChromium();
  const { url, key } = desk.place;
  const { page, problems } = await WatchedPage.open(browser, `${url}/sessions/${session}#token=${key}`);
  await page.getByRole('heading', { name: 'Change the files.' }).waitFor();
  const conversation = page.getByRole('region', { name: 'Conversation' });
  const more = page.getByRole('button', { name: 'Show earlier' });
  while ((await more.count()) > 0) await more.click();
  const said = await conversation.locator('.block.message').allInnerTexts();
  assert.deepEqual([said[0], said.at(-1)], ['Change the files.', 'To the end.']);
  assert.equal((await conversation.locator('.block.reply').allInnerTexts()).at(-1), 'All is done.');
  const states = await conversation.locator('.call .badge').allInnerTexts();
  assert.equal(states.length, CALLS);
  // A client that is killed may find out of one call that it does not know its outcome.
  const failed = states.filter(state => state === 'error').length;
  assert.ok(failed <= KILLS && !states.some(state => state !== 'done' && state !== 'error'), states.join());
  const facts = (await page.locator('main .facts').innerText()).replaceAll(/\s+/g, ' ');
  assert.match(facts, new RegExp(`Turns ${TURNS} Tools `));
  // It asks who it is before it signs in with the token of the link.
  const unexpected = problems.filter(problem => !problem.endsWith('/me'));
  assert.deepEqual(unexpected, []);
  return 'the page shows one session';
}
