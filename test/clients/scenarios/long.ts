import assert from 'node:assert/strict';
import type { Client } from '../client.ts';
import type { Desk } from '../desk.ts';
import type { Script, ScriptedTurn, WireName } from '../upstream/script.ts';
import type { Seen } from '../upstream/upstream.ts';
import { countRounds } from '../upstream/wires.ts';
import type { Scenario } from './scenario.ts';

/** One white pixel. */
export const PICTURE =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';

export const TURNS = 30;
/** Of all turns together. */
export const CALLS = 36;
const INTERRUPTED = 10;
const KILLED = 20;
const LAST = TURNS - 1;

/**
 * A task of 30 turns with a picture, parallel calls, and reasoning of both kinds. The person interrupts it, and later
 * the gateway is killed; both times it goes on where it was.
 */
export function long(client: Client, wire: WireName): Scenario {
  return {
    name: `${client.name}/${wire}/long`,
    client,
    wire,
    // Gemini signs calls, for which clients have no place: a new prompt goes on with the documented placeholder.
    mayLose: client.forgets === true || wire === 'gemini',
    config: { keep_unstored: true },
    files: { 'notes.txt': 'line 0\n', 'picture.png': Buffer.from(PICTURE, 'base64') },
    scripts: desk => [task(client, desk, [INTERRUPTED, KILLED])],
    play: async desk => {
      const { upstream } = desk;
      const interrupted = desk.begin('Change the files.', { image: 'picture.png' });
      await upstream.until(seen => seen.some(({ turn }) => turn === INTERRUPTED));
      interrupted.signal('SIGINT');
      await interrupted.ended;
      await upstream.until(seen => seen.every(({ outcome }) => outcome !== 'open'));
      const second = desk.begin('Go on.', { continues: true });
      await upstream.until(seen => seen.some(({ turn }) => turn === KILLED));
      await desk.killGateway();
      await desk.startGateway();
      const { stdout } = await second.ended;
      if (!stdout.includes('All is done.'))
        assert.match((await desk.ask('Please go on.', { continues: true })).stdout, /All is done\./);
      const paid = assertDone(desk);
      assert.ok(
        JSON.stringify(paid[0]?.body).includes(PICTURE.slice(0, 40)),
        'the model did not get the picture',
      );
      await assertShown(desk);
      return `${TURNS} turns, reasoning returned ${paid.at(-1)?.kept} times`;
    },
  };
}

/** Edits a file in each turn. The stream of those that are `stopped` hangs the first time. */
export function task({ tools }: Client, { place }: Desk, stopped: readonly number[]): Script {
  const turns = Array.from({ length: TURNS }, (_, at): ScriptedTurn => {
    if (at === LAST) return { text: 'All is done.' };
    const trouble = { type: 'hang', times: 1 } as const;
    const log = tools.shell(place, `echo ${at} >> log.txt`);
    return {
      ...(at % 4 === 0 && { text: `This is step ${at}.` }),
      reasoning: at % 3 === 0 ? 'sealed' : { text: `I think about step ${at}.` },
      calls:
        at === 0
          ? [log, tools.read(place, 'notes.txt'), tools.write(place, 'new.txt', 'new\n')]
          : callsOf(at),
      ...(stopped.includes(at) && { trouble }),
    };

    function callsOf(step: number) {
      const edit = tools.edit(place, 'notes.txt', `line ${step - 1}`, `line ${step}`);
      return step % 5 === 0 ? [edit, log] : [edit];
    }
  });
  return { name: 'task', at: countRounds, turns };
}

/** Every edit was made, and every turn paid once. Returns the requests that were paid. */
export function assertDone(desk: Desk): Seen[] {
  const logged = Array.from({ length: LAST }, (_, at) => at).filter(at => at % 5 === 0);
  assert.equal(desk.read('notes.txt'), `line ${LAST - 1}\n`);
  assert.equal(desk.read('log.txt'), logged.map(at => `${at}\n`).join(''));
  const paid = desk.upstream.turns.filter(({ outcome }) => outcome === 'answered');
  assert.deepEqual(
    paid.map(({ turn }) => turn),
    Array.from({ length: TURNS }, (_, at) => at),
  );
  return paid;
}

/** The runs of the page: titled by what the person said, with every turn. */
async function assertShown(desk: Desk): Promise<void> {
  const runs = await desk.runs();
  const titles = runs.map(({ title }) => title);
  const isShown = titles.some(title => title.includes('Change the files.'));
  assert.ok(isShown, `no run has the title: ${[...new Set(titles)].join(' | ')}`);
  assert.equal(runs.filter(({ status }) => status === 'running').length, 0, 'a run still goes on');
}
