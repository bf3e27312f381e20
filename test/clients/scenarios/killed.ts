import assert from 'node:assert/strict';
import type { Client } from '../client.ts';
import type { WireName } from '../upstream/script.ts';
import { assertDone, TURNS, task } from './long.ts';
import { assertShown } from './resumed.ts';
import type { Scenario } from './scenario.ts';

const KILLED = 12;

/** A task of 30 turns. In the middle of one the client and the gateway are killed; both are started again, and go on. */
export function killed(client: Client, wire: WireName): Scenario {
  return {
    name: `${client.name}/${wire}/killed`,
    client,
    wire,
    files: { 'notes.txt': 'line 0\n' },
    scripts: desk => [task(client, desk, [KILLED])],
    play: async desk => {
      const { upstream } = desk;
      const { ended, signal } = desk.begin('Change the files.');
      await upstream.until(seen => seen.some(({ turn }) => turn === KILLED));
      signal('SIGKILL');
      await Promise.all([ended, desk.killGateway()]);
      await desk.startGateway();
      assert.match((await desk.ask('Go on.', { continues: true })).stdout, /All is done\./);
      const paid = assertDone(desk);
      assert.equal(upstream.turns.length, TURNS + 1);
      const shown = await assertShown(desk, { last: 'Go on.' });
      return `${TURNS} turns, reasoning returned ${paid.at(-1)?.kept} times, ${shown}`;
    },
  };
}
