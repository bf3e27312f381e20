import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sqlite } from '../../../stores/sqlite.ts';
import type { Client } from '../client.ts';
import type { WireName } from '../upstream/script.ts';
import { edits } from './edits.ts';
import type { Scenario } from './scenario.ts';

/**
 * `agentchart code` with a home whose settings name another gateway: it gets no request, the settings stay as they are,
 * no temporary file is left, and the prompt is one run of a session, which the page shows.
 */
export function code(client: Client, wire: WireName, command: 'codex' | 'claude'): Scenario {
  return {
    ...edits(client, wire),
    name: `${client.name}/${wire}/code`,
    play: async desk => {
      const names = Object.keys(client.settings(desk.place));
      const readAll = () => names.map(name => readFileSync(join(desk.home, name), 'utf8'));
      const before = readAll();
      const { code, stdout, stderr } = await desk.code(command, 'Change the files.');
      assert.equal(code, 0, stderr);
      assert.match(stdout, /All is done\./);
      assert.equal(desk.read('notes.txt'), 'two\nthree\n');
      assert.match(stderr, /\n4 turns, [\d,]+ input tokens/);
      assert.doesNotMatch(stderr, /ignored/);
      assert.deepEqual(await desk.runs(), []);
      assert.deepEqual(readAll(), before);
      assert.deepEqual(
        readdirSync(join(desk.folder, 'tmp')).filter(name => name.startsWith('agentchart')),
        [],
      );
      const store = sqlite(join(desk.folder, 'code.db'));
      const { runs } = await store.list();
      await store.close();
      const main = runs.filter(({ labels }) => labels.thread === undefined);
      assert.deepEqual(
        main.map(({ status, title, turns }) => ({ status, title, turns })),
        [{ status: 'finished', title: 'Change the files.', turns: 4 }],
      );
      const session = main[0]?.labels.session ?? '';
      assert.match(stderr, new RegExp(`/sessions/${session}\\n`));
      return '3 tools, 4 turns, one run';
    },
  };
}
