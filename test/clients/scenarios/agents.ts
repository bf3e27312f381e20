import assert from 'node:assert/strict';
import { CODEX } from '../clients/codex.ts';
import type { ModelRequest, WireName } from '../upstream/script.ts';
import type { Scenario } from './scenario.ts';

const TASK = 'Write the file of the sub-agent.';

/** Codex in code mode gives a task to a sub-agent, which tells it when it is done. */
export function agents(wire: WireName): Scenario {
  const client = CODEX.programs;
  return {
    name: `${client.name}/${wire}/agents`,
    client,
    wire,
    scripts: ({ place }) => [
      {
        name: 'sub-agent',
        takes: request => isSubAgent(request),
        turns: [{ calls: [client.tools.write(place, 'sub.txt', 'done\n')] }, { text: 'It is written.' }],
      },
      {
        name: 'task',
        turns: [
          {
            calls: [{ tool: 'spawn_agent', input: { task_name: 'one', message: TASK, fork_turns: 'none' } }],
          },
          { reasoning: { text: 'I wait.' }, calls: [{ tool: 'wait_agent', input: { timeout_ms: 30_000 } }] },
          { text: 'All is done.' },
        ],
      },
    ],
    play: async desk => {
      const { stdout } = await desk.ask('Have the file written.');
      assert.match(stdout, /All is done\./);
      assert.equal(desk.read('sub.txt'), 'done\n');
      assert.ok(JSON.stringify(desk.upstream.turns.at(-1)?.body).includes('It is written.'));
      return 'a sub-agent, and its answer';
    },
  };
}

/** The first message of the user's part says whose conversation it is. */
function isSubAgent({ body }: ModelRequest): boolean {
  const text = JSON.stringify(body);
  return text.includes(TASK) && !text.includes('Have the file written.');
}
