import { describe, expect, test } from 'vitest';
import { calling, Desk, LIBRARY } from '../support/cli/desk.ts';
import { sampled } from '../support/sample.ts';
import { until } from '../support/server/runs-app.ts';
import { ServedDesk } from '../support/server/served-desk.ts';

/** An agent whose tool runs the given failing code and then takes half a second. */
function makeModule(failing: string): string {
  return `import { createAgent, tool } from '${LIBRARY}';
     const input = { '~standard': { version: 1, vendor: 'test', validate: value => ({ value }),
       jsonSchema: { input: () => ({ type: 'object' }), output: () => ({ type: 'object' }) } } };
     const leak = tool({ name: 'leak', description: 'Leaks.', input, sideEffect: 'idempotent', run: async () => {
       ${failing}
       await new Promise(resolve => setTimeout(resolve, 500));
       return 'leaked';
     } });
     export default createAgent({ name: 'leaky', tools: [leak] });`;
}

function makeDesk(failing: string): Desk {
  const desk = new Desk([calling('leak'), { text: 'Done.' }]);
  desk.write('leaky.mjs', makeModule(failing));
  return desk;
}

const FAILURES: [string, string][] = [
  ['an unhandled rejection', `void Promise.reject(new Error('the pipe burst'));`],
  ['a timer', `setTimeout(() => { throw new Error('the pipe burst'); }, 5);`],
  [
    'an unhandled rejection after a timer',
    `void (async () => { await new Promise(resolve => setTimeout(resolve, 5)); throw new Error('the pipe burst'); })();`,
  ],
];

describe.concurrent.each(sampled(FAILURES, 1))('a tool that fails in %s', (_, failing) => {
  test('ends the command with the names of the tool and the run, which stays resumable', async () => {
    const desk = makeDesk(failing);
    const ended = await desk.runAlone(['run', '--agent', 'leaky.mjs', '--json', 'go'], desk.model);
    const [, runId = ''] = /"runId":"(\w+)"/.exec(ended.stdout) ?? [];
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(
      `Tool "leak" threw outside its promise, in call call_0_0 of run ${runId}: the pipe burst`,
    );
    desk.write('leaky.mjs', makeModule(''));
    const resumed = await desk.runAlone(['resume', runId, '--agent', 'leaky.mjs'], desk.model);
    expect(resumed.code).toBe(0);
  });

  test('does not end a server, which reports the tool', async () => {
    const desk = makeDesk(failing);
    const served = await ServedDesk.start(desk, { args: ['--agent', 'leaky.mjs'] });
    let stderr = '';
    served.started.child.stderr.on('data', chunk => {
      stderr += chunk;
    });
    const { runId } = (await (await served.post('/runs', { input: 'go' })).json()) as { runId: string };
    await until(async () => {
      const view = (await (await fetch(`${served.url}/runs/${runId}`)).json()) as { status: string };
      return view.status === 'finished' ? true : undefined;
    });
    expect(stderr).toContain(`Tool "leak" threw outside its promise, in call call_0_0 of run ${runId}`);
    served.started.child.kill('SIGTERM');
    expect((await served.started.ended).code).toBe(0);
  });
});

test('an uncaught error outside of tools ends the command with its stack, as usual', async () => {
  const desk = new Desk([{ text: 'Done.' }]);
  desk.write(
    'other.mjs',
    `import { createAgent } from '${LIBRARY}';
     export default createAgent({ name: 'other', prepareTurn: () => {
       void Promise.reject(null);
       return new Promise(() => setTimeout(() => {}, 60_000));
     } });`,
  );
  const ended = await desk.runAlone(['run', '--agent', 'other.mjs', 'go'], desk.model);
  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain('Uncaught: ');
});
