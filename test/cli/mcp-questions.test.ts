import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import type { ScriptedTurn } from '../../adapters/scripted/scripted-turns.ts';
import { built } from '../support/built.ts';
import { calling, Desk, LIBRARY } from '../support/cli/desk.ts';
import { TAKES_ALL } from '../support/sample.ts';
import { until } from '../support/server/runs-app.ts';
import { AskingWorld } from '../support/tools/asking-server.ts';

const MCP = pathToFileURL(built('tools/mcp.ts')).href;
const SERVER = join(import.meta.dirname, '../support/tools/asking-server.ts');

/** A desk whose agent has the tools of a server over stdio. With `HOLD`, the server is a process that says nothing. */
function prepare(turn: ScriptedTurn) {
  const desk = new Desk([turn, { text: 'Done.' }]);
  const world = new AskingWorld(desk.path('world'));
  const command = JSON.stringify(process.execPath);
  const args = JSON.stringify(['--no-warnings', SERVER, world.folder]);
  const silent = JSON.stringify(['-e', 'setInterval(() => {}, 1e6)']);
  desk.write(
    'agent.mjs',
    `import { createAgent } from '${LIBRARY}';
     import { mcp } from '${MCP}';
     const args = process.env.HOLD === undefined ? ${args} : ${silent};
     const bank = mcp({ name: 'bank', command: ${command}, args, trustHints: true });
     export default createAgent({ name: 'desk', tools: [bank] });`,
  );
  return { desk, world };
}

const RUN = ['run', '--agent', 'agent.mjs', '--json', 'go'];

/** The run of such a desk, which waits for an answer. */
async function open(turn: ScriptedTurn) {
  const { desk, world } = prepare(turn);
  const begun = await desk.runAlone(RUN, desk.model);
  const runId = runIn(begun.stdout);
  const answer = (answers: object) => ['answer', runId, 'call_0_0', '--answers', JSON.stringify(answers)];
  return { desk, world, begun, runId, answer };
}

function runIn(stdout: string): string {
  return String(JSON.parse(stdout.split('\n')[0] ?? '').runId);
}

async function hasDone(world: AskingWorld, line: string): Promise<void> {
  await until(async () => (world.ledger.includes(line) ? true : undefined));
}

async function kill(process: ReturnType<Desk['start']>): Promise<void> {
  process.child.kill('SIGKILL');
  await process.ended;
}

test('a question of a server in one process is answered in a second, which is killed, and the model reads the result in a third', async () => {
  const { desk, world, begun, runId, answer } = await open(calling(['pay', { amount: 5 }]));
  expect(begun.code).toBe(3);
  expect(begun.stderr).toContain('The MCP server "bank" asks: Which account?');

  const second = desk.start(answer({ '1.account': { account: 'main' } }), { HOLD: '1' });
  await until(async () => {
    const events = await desk.journal(runId);
    return events.some(({ type }) => type === 'question.answered') ? true : undefined;
  });
  await kill(second);
  expect(world.ledger).toEqual(['asked first']);

  const third = await desk.runAlone(['resume', runId, '--json']);
  expect(third.code).toBe(3);
  const [, sure = ''] = /"(2\.is_it_right_\.[0-9a-f]{12})"/.exec(third.stdout) ?? [];
  const fourth = await desk.run(answer({ [sure]: { sure: true } }));
  expect([fourth.code, fourth.stdout]).toEqual([0, expect.stringContaining('Done.')]);
  expect(world.ledger.at(-1)).toBe('paid 5 from main');
  expect(world.ledger.filter(line => line.startsWith('asked'))).toHaveLength(3);
  const settled = (await desk.journal(runId)).find(({ type }) => type === 'tool.settled');
  expect(settled).toMatchObject({ output: 'paid 5 from main', isError: false });
});

test('a process that is killed after it sent answers leaves the call in doubt, and a retry asks nothing twice', async () => {
  const { desk, world, runId, answer } = await open(calling('halt'));
  const second = desk.start(answer({ '1.go': { go: true } }));
  await hasDone(world, 'began halt');
  await kill(second);

  const third = await desk.runAlone(['resume', runId]);
  expect(third.code).toBe(3);
  const doubted = (await desk.journal(runId)).find(({ type }) => type === 'tool.doubted');
  expect(doubted).toMatchObject({ reason: expect.stringContaining('was sent the answers') });
  expect(world.ledger).toEqual(['began halt']);

  const retried = await desk.run(['resolve', runId, 'call_0_0', '--retry']);
  expect([retried.code, retried.stdout]).toEqual([0, expect.stringContaining('Done.')]);
  const settled = (await desk.journal(runId)).find(({ type }) => type === 'tool.settled');
  expect(settled).toMatchObject({ output: 'did halt' });
});

test.runIf(TAKES_ALL)('a call that may happen again is sent its answers again after a kill', async () => {
  const { desk, world, runId, answer } = await open(calling('halt_again'));
  const second = desk.start(answer({ '1.go': { go: true } }));
  await hasDone(world, 'began halt_again');
  await kill(second);
  const third = await desk.runAlone(['resume', runId]);
  expect([third.code, third.stdout]).toEqual([0, expect.stringContaining('Done.')]);
  expect(world.ledger).toEqual(['began halt_again', 'began halt_again']);
});

test.runIf(TAKES_ALL)('a task is followed by another process after a kill, and begun once', async () => {
  const { desk, world } = prepare(calling(['research', { topic: 'forever' }]));
  const first = desk.start(RUN, desk.model);
  const runId = runIn(await first.printed('tool.kept'));
  await until(async () => (world.tasks.some(({ polls }) => polls > 0) ? true : undefined));
  await kill(first);
  for (const { taskId, ...task } of world.tasks) world.writeTask(taskId, { ...task, topic: 'bees' });
  const second = await desk.runAlone(['resume', runId]);
  expect([second.code, second.stdout]).toEqual([0, expect.stringContaining('Done.')]);
  expect(world.ledger).toEqual(['began forever']);
});
