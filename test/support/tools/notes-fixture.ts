/**
 * `node notes-fixture.ts DATABASE N`, with a file of SQLite or an address of PostgreSQL: a run with three calls of `memory`, begun or resumed. The process kills itself after
 * the function of its Nth call has returned, before the result is in the journal; with 0, it prints the results.
 */
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent, systemHost } from '../../../agent/index.ts';
import { postgres } from '../../../stores/postgres.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { notes } from '../../../tools/notes/index.ts';
import { calls } from '../engine/agents.ts';

const [database = '', last] = process.argv.slice(2);
const path = '/memories/a.md';
const model = scripted([
  calls(['memory', { command: 'create', path, file_text: 'one' }]),
  calls(['memory', { command: 'insert', path, insert_line: 1, insert_text: 'two' }]),
  calls(['memory', { command: 'view', path }]),
  { text: 'Done.' },
]);
let returned = 0;
const host = {
  ...systemHost,
  reach: (point: string) => {
    if (point !== 'tool.after') return;
    returned += 1;
    if (String(returned) === last) process.kill(process.pid, 'SIGKILL');
  },
};
const store = database.startsWith('postgres:') ? postgres(database) : sqlite(database);
const agent = createAgent({ name: 'desk', model, store, host, tools: [notes({ by: 'user' })] });
const isBegun = (await store.get('run_1')) !== undefined;
const run = isBegun
  ? await agent.open('run_1')
  : await agent.start('Go.', { runId: 'run_1', labels: { user: '7' } });
const settled = await run.settled();
if (settled.status === 'finished') console.log(JSON.stringify(settled.results.map(({ output }) => output)));
await store.close();
