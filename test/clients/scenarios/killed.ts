import assert from 'node:assert/strict';
import { CHROMIUM, launchChromium, WatchedPage } from '../../support/visualizer/browser.ts';
import type { Client } from '../client.ts';
import type { Desk } from '../desk.ts';
import type { ScriptedTurn, WireName } from '../upstream/script.ts';
import { countRounds } from '../upstream/wires.ts';
import { PICTURE } from './long.ts';
import type { Scenario } from './scenario.ts';

const TURNS = 30;
const KILLED = 12;
const LAST = TURNS - 1;

/**
 * A task of 30 turns with three tools, one of which reads a picture. In its middle the client and the gateway are killed.
 * Both are started again: the session goes on, the page shows it as one conversation with every turn, and the answer is
 * printed alone.
 */
export function killed(client: Client, wire: WireName): Scenario {
  return {
    name: `${client.name}/${wire}/killed`,
    client,
    wire,
    files: { 'notes.txt': 'line 0\n', 'picture.png': Buffer.from(PICTURE, 'base64') },
    scripts: desk => [
      { name: 'task', at: countRounds, turns: Array.from({ length: TURNS }, (_, at) => turnOf(desk, at)) },
    ],
    play: async desk => {
      const { upstream } = desk;
      const { ended, signal } = desk.begin('Change the files.');
      await upstream.until(seen => seen.some(({ turn }) => turn === KILLED));
      signal('SIGKILL');
      await Promise.all([ended, desk.killGateway()]);
      await upstream.until(seen => seen.every(({ outcome }) => outcome !== 'open'));
      await desk.startGateway();
      const { stdout } = await desk.ask('Go on.', { continues: true });
      assert.equal(stdout, 'All is done.\n');
      assert.equal(desk.read('notes.txt'), `line ${LAST - 1}\n`);
      const steps = Array.from({ length: LAST }, (_, at) => at);
      assert.equal(desk.read('log.txt'), steps.flatMap(at => (isLogged(at) ? `${at}\n` : [])).join(''));
      const outcomes = upstream.turns.map(({ turn, outcome }) => `${turn} ${outcome}`);
      const answered = [...steps, LAST].map(turn => `${turn} answered`);
      assert.deepEqual(outcomes, answered.toSpliced(KILLED, 0, `${KILLED} left`));
      const results = JSON.stringify(upstream.turns.at(-1)?.body);
      assert.equal(results.includes(PICTURE.slice(0, 40)), wire !== 'openai-chat');
      await assertShown(desk);
      return `${TURNS} turns, reasoning returned ${upstream.turns.at(-1)?.kept} times`;
    },
  };
}

function turnOf(desk: Desk, at: number): ScriptedTurn {
  // Its text is complete before the provider's data arrives.
  if (at === LAST) return { reasoning: 'sealed', text: 'All is done.' };
  return {
    ...(at % 4 === 0 && { text: `This is step ${at}.` }),
    reasoning: at % 3 === 0 ? 'sealed' : { text: `I think about step ${at}.` },
    calls: callsOf(desk, at),
    ...(at === KILLED && { trouble: { type: 'hang', times: 1 } }),
  };
}

function callsOf({ client: { tools }, place }: Desk, at: number) {
  const work =
    at === 0
      ? [tools.read(place, 'notes.txt'), tools.read(place, 'picture.png')]
      : [tools.edit(place, 'notes.txt', `line ${at - 1}`, `line ${at}`)];
  return isLogged(at) ? [...work, tools.shell(place, `echo ${at} >> log.txt`)] : work;
}

const isLogged = (at: number) => at % 5 === 0;

/** One session, with each turn and each call once. */
async function assertShown(desk: Desk): Promise<void> {
  const main = (await desk.runs()).filter(({ labels }) => labels.thread === undefined);
  const [session, ...others] = new Set(main.map(({ labels }) => labels.session));
  assert.deepEqual(others, []);
  assert.equal(
    main.reduce((sum, { turns }) => sum + turns, 0),
    TURNS,
  );
  if (CHROMIUM === undefined) return;
  await using browser = await launchChromium();
  const { url, key } = desk.place;
  const { page } = await WatchedPage.open(browser, `${url}/sessions/${session}#token=${key}`);
  await page.getByRole('heading', { name: 'Change the files.' }).waitFor();
  const facts = (await page.locator('main .facts').innerText()).replaceAll(/\s+/g, ' ');
  assert.match(facts, /Turns 30 Tools Read ×2, Bash ×6, Edit ×28 /);
}
