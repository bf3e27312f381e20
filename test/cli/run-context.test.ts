import { expect, test } from 'vitest';
import { calling, Desk, eventsOf, LIBRARY } from '../support/cli/desk.ts';

const MODULE = `
import * as z from ${JSON.stringify(import.meta.resolve('zod'))};
import { createAgent, tool } from ${JSON.stringify(LIBRARY)};

export default createAgent({
  name: 'desk',
  runContext: z.object({ user: z.string() }),
  tools: [
    tool({
      name: 'refund',
      description: 'Pays back.',
      input: z.object({}),
      approval: true,
      run: (_, { runContext }) => runContext,
    }),
  ],
});
`;

test('run --context is what the tools get in the process that approves; run without it exits 2', async () => {
  const desk = new Desk([calling('refund'), { text: 'Done.' }]);
  const agent = desk.write('desk.mjs', MODULE);
  const run = (...args: string[]) => desk.run(['run', '--agent', agent, '--json', ...args, 'go'], desk.model);
  const [begun, without] = await Promise.all([run('--context', '{"user":"ada"}'), run()]);
  expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining('needs a run context') });
  expect(begun.code).toBe(3);
  const runId = eventsOf(begun.stdout)[0]?.runId ?? '';
  const approved = await desk.run(['approve', runId, 'call_0_0', '--json']);
  expect(eventsOf(approved.stdout)).toContainEqual(
    expect.objectContaining({ type: 'tool.settled', output: { user: 'ada' } }),
  );
});
