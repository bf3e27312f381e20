import assert from 'node:assert/strict';
import { join } from 'node:path';
import { CODEX } from '../clients/codex.ts';
import type { WireName } from '../upstream/script.ts';
import type { Scenario } from './scenario.ts';

/** Codex searches for the tools of the user's MCP server, which the model then calls in their namespace. */
export function search(wire: WireName): Scenario {
  const client = CODEX.known;
  return {
    name: `${client.name}/${wire}/search`,
    client,
    wire,
    files: { 'notes.txt': 'one\n' },
    scripts: ({ place }) => [
      {
        name: 'task',
        turns: [
          {
            reasoning: { text: 'I look for a tool.' },
            calls: [{ tool: 'tool_search', input: { query: 'replace text' } }],
          },
          {
            reasoning: { text: 'I found it.' },
            calls: [
              {
                tool: 'replace_text',
                input: { file: join(place.work, 'notes.txt'), from: 'one', to: 'two' },
              },
              client.tools.shell(place, 'echo three >> log.txt'),
            ],
          },
          { calls: [client.tools.edit(place, 'notes.txt', 'two', 'three')] },
          { text: 'All is done.' },
        ],
      },
    ],
    play: async desk => {
      const { stdout } = await desk.ask('Change the files.');
      assert.match(stdout, /All is done\./);
      assert.equal(desk.read('notes.txt'), 'three\n');
      assert.equal(desk.read('log.txt'), 'three\n');
      assert.equal(desk.upstream.turns.length, 4);
      return 'found and called, reasoning returned';
    },
  };
}
