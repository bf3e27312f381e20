import assert from 'node:assert/strict';
import type { Client } from '../client.ts';
import type { WireName } from '../upstream/script.ts';
import type { Scenario } from './scenario.ts';

/** A file is written, changed by three tools, two of them in one turn, and read again. */
export function edits(client: Client, wire: WireName): Scenario {
  return {
    name: `${client.name}/${wire}/edits`,
    client,
    wire,
    files: { 'notes.txt': 'one\n' },
    scripts: ({ place }) => [
      {
        name: 'task',
        turns: [
          {
            reasoning: { text: 'I look first.' },
            text: 'I read both files.',
            calls: [
              client.tools.read(place, 'notes.txt'),
              client.tools.write(place, 'new.txt', 'first line\n'),
            ],
          },
          { reasoning: 'sealed', calls: [client.tools.edit(place, 'notes.txt', 'one', 'two')] },
          {
            reasoning: { text: 'Once more.' },
            calls: [client.tools.shell(place, 'echo three >> notes.txt')],
          },
          { text: 'All is done.' },
        ],
      },
    ],
    play: async desk => {
      const { stdout } = await desk.ask('Change the files.');
      assert.match(stdout, /All is done\./);
      assert.equal(desk.read('notes.txt'), 'two\nthree\n');
      assert.equal(desk.read('new.txt'), 'first line\n');
      assert.equal(desk.upstream.turns.length, 4);
      return '3 tools, 4 turns';
    },
  };
}
