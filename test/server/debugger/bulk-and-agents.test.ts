import { expect, test } from 'vitest';
import * as z from 'zod';
import { createAgent } from '../../../agent/index.ts';
import { errorOf, makeApp, makeTools } from '../../support/server/runs-app.ts';

const tokens = {
  ann: { token: 'the-token-of-ann-0000000', role: 'operator', labels: { tenant: 'a' } },
  vera: { token: 'the-token-of-vera-000000', role: 'viewer' },
  paul: { token: 'the-token-of-paul-000000', role: 'approver' },
  boss: { token: 'the-token-of-boss-000000', role: 'operator' },
} as const;
const as = (name: keyof typeof tokens) => ({ authorization: `Bearer ${tokens[name].token}` });

test('one command goes to many runs, and each says whether it took it', async () => {
  const desk = makeApp();
  const [one, two] = [await desk.begin(), await desk.begin()];
  await desk.send('POST', `/runs/${two.runId}/cancel`, {});
  const runs = [one.runId, two.runId, 'run_none', one.runId];
  const send = async () => {
    const answer = await desk.send('POST', '/runs/bulk', {
      runs,
      command: { type: 'cancel', requestId: 'all' },
    });
    return ((await answer.json()) as { results: object[] }).results;
  };
  const first = await send();
  expect(first).toMatchObject([
    { runId: one.runId, accepted: true },
    { runId: two.runId, accepted: false, code: 'run-ended' },
    { runId: 'run_none', accepted: false, code: 'run-unknown' },
  ]);
  expect(first).toHaveLength(3);
  expect((await desk.view(one.runId)).status).toBe('cancelled');
  expect(await send()).toEqual(first);
  for (const body of [
    { runs: [], command: { type: 'pause' } },
    { runs: Array.from({ length: 201 }, (_, index) => `run_${index}`), command: { type: 'pause' } },
    { runs: ['run_1'], command: { type: 'nothing' } },
    { runs: ['run_1'] },
  ])
    expect((await errorOf(await desk.send('POST', '/runs/bulk', body))).code).toBe('input-invalid');
});

test('a bulk command is for operators, and reaches only runs with their labels', async () => {
  const desk = makeApp({ tokens });
  const started = await desk.send('POST', '/runs', { input: 'go', labels: { tenant: 'b' } }, as('boss'));
  const { runId } = (await started.json()) as { runId: string };
  const body = { runs: [runId], command: { type: 'pause' } };
  for (const name of ['vera', 'paul'] as const)
    expect((await desk.send('POST', '/runs/bulk', body, as(name))).status).toBe(403);
  const answer = await desk.send('POST', '/runs/bulk', body, as('ann'));
  expect(await answer.json()).toMatchObject({ results: [{ runId, accepted: false, code: 'run-unknown' }] });
  expect(await (await desk.send('POST', '/runs/bulk', body, as('boss'))).json()).toEqual({
    results: [{ runId, accepted: true }],
  });
  const events = (await desk.store.read(runId)).map(({ event }) => event);
  expect(events.find(({ type }) => type === 'pause.requested')).toMatchObject({ by: 'boss' });
});

test('an agent is described with its instructions, tools and limits, and a sub-agent too', async () => {
  const clerk = createAgent({ name: 'clerk', instructions: () => 'secret of a run', tools: makeTools() });
  const desk = makeApp({
    agent: {
      instructions: 'Help. </script>',
      tools: [...makeTools(), clerk.asTool({ name: 'ask_clerk', description: 'Asks.' })],
      limits: { turns: 7 },
      runContext: z.object({ user: z.string() }),
    },
  });
  const read = async (name: string) => await (await desk.send('GET', `/agents/${name}`)).json();
  const view = (await read('desk')) as { tools: { name: string }[] };
  expect(view).toMatchObject({
    name: 'desk',
    instructions: 'Help. </script>',
    limits: { turns: 7, toolCalls: 50 },
    needsRunContext: true,
    sources: 0,
    facts: expect.arrayContaining([
      { name: 'Most turns', value: '7' },
      { name: 'At a limit', value: 'one closing answer' },
    ]),
  });
  expect(view.tools.find(({ name }) => name === 'refund')).toMatchObject({
    sideEffect: 'once',
    approval: 'always',
    executedBy: 'engine',
    inputSchema: { type: 'object', required: ['orderId', 'cents'] },
  });
  expect(view.tools.find(({ name }) => name === 'expiring')).toMatchObject({ approval: 'depends' });
  expect(view.tools.find(({ name }) => name === 'ask_customer')).toMatchObject({
    executedBy: 'client',
    says: expect.stringMatching(/^[a-z ,]+ · .*approval.* · a client runs it/),
  });
  expect(view.tools.find(({ name }) => name === 'ask_clerk')).toMatchObject({
    executedBy: 'agent',
    agent: 'clerk',
  });
  expect(await read('clerk')).toMatchObject({ name: 'clerk', instructions: null });
  expect((await errorOf(await desk.send('GET', '/agents/nobody'))).code).toBe('agent-unknown');
});

test('a token finds out whose it is, and what it sees', async () => {
  const desk = makeApp({ tokens });
  expect(await (await desk.send('GET', '/me', undefined, as('ann'))).json()).toEqual({
    name: 'ann',
    role: 'operator',
    rights: ['read', 'inspect', 'start', 'send', 'result', 'decide', 'command', 'generate'],
    can: 'The role "operator" can do everything.',
    groups: [],
    labels: { tenant: 'a' },
  });
  expect((await desk.send('GET', '/me')).status).toBe(401);
});

test('the list is searched with text', async () => {
  const desk = makeApp();
  await desk.begin({ input: 'go', title: 'Refund for Order 7' });
  await desk.begin({ input: 'go', title: 'Another' });
  const { runs } = (await (await desk.send('GET', '/runs?text=oRDER')).json()) as {
    runs: { title: string }[];
  };
  expect(runs.map(({ title }) => title)).toEqual(['Refund for Order 7']);
});
