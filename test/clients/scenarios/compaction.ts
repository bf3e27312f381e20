import assert from 'node:assert/strict';
import type { Client } from '../client.ts';
import type { ModelRequest, WireName } from '../upstream/script.ts';
import { countTurns } from '../upstream/wires.ts';
import type { Scenario } from './scenario.ts';

type Items = ModelRequest['items'];

const SUMMARY = 'The first of two lines is written.';

/**
 * A conversation that is too long after its first turn: the client has it summed up, by a prompt of its own or by the
 * gateway, and goes on from the summary.
 */
export function compaction(client: Client, wire: WireName): Scenario {
  return {
    name: `${client.name}/${wire}/compaction`,
    client,
    wire,
    files: { 'notes.txt': 'line 0\n' },
    // Its prompt comes without tools, so that thinking which is bound to them cannot go along.
    mayLose: true,
    scripts: ({ place }) => [
      { name: 'summary', takes: asksForSummary, at: () => 0, turns: [{ text: SUMMARY }] },
      {
        name: 'task',
        at: items => (isSummedUp(items) ? 2 : 0) + countTurns(items),
        turns: [
          { calls: [client.tools.shell(place, 'echo one >> log.txt')] },
          {
            reasoning: { text: 'That was much.' },
            calls: [client.tools.shell(place, 'echo two >> log.txt')],
            usage: { input: 250_000, output: 20, cached: 0, reasoning: 5 },
          },
          { calls: [client.tools.edit(place, 'notes.txt', 'line 0', 'line 1')] },
          { text: 'All is done.' },
        ],
      },
    ],
    play: async desk => {
      const { stdout, stderr } = await desk.ask('Change the files.');
      assert.match(stdout, /All is done\./);
      assert.doesNotMatch(stderr, /Falling back from WebSockets/);
      assert.equal(desk.read('log.txt'), 'one\ntwo\n');
      assert.equal(desk.read('notes.txt'), 'line 1\n');
      const played = desk.upstream.turns.map(({ script, turn }) => `${script} ${turn}`);
      assert.deepEqual(played, ['task 0', 'task 1', 'summary 0', 'task 2', 'task 3']);
      return 'summed up once';
    },
  };
}

function isSummedUp(items: Items): boolean {
  return items.some(item => item.type === 'message' && JSON.stringify(item.content).includes(SUMMARY));
}

/** The client's own prompt, or the gateway's. */
function asksForSummary({ items }: ModelRequest): boolean {
  const last = items.findLast(({ type }) => type === 'message');
  const asked = last?.type === 'message' ? JSON.stringify(last.content) : '';
  return /CONTEXT CHECKPOINT COMPACTION|^.Summarize this conversation\./.test(asked);
}
