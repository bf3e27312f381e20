import { expect, test } from 'vitest';
import * as z from 'zod';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import { explore } from '../../explore/explore.ts';
import { fold } from '../../machines/fold.ts';
import { makeTool } from '../support/engine/agents.ts';
import { mapCalls, recording } from '../support/tools/planted/planted.ts';

const book = makeTool('book', {
  approval: true,
  prepare: ({ ask }) => ask({ key: 'when', message: 'When?', schema: z.string() }),
});

const agent = createAgent({
  name: 'desk',
  model: scripted([{}]),
  limits: { turns: 3, toolCalls: 2 },
  tools: [book, makeTool('look', { sideEffect: 'none' })],
});

test('a tool that asks breaks no invariant, whenever its questions are answered, declined or expire', async () => {
  const report = await explore(agent, { maxStates: 12_000 });
  expect(report.breaches).toEqual([]);
});

test('a chart that runs a call although one of its questions is open is found', async () => {
  const machine = recording((context, event) => {
    const after = fold(context, event);
    if (event.type !== 'question.answered') return after;
    return mapCalls(after, call => (call.status === 'asking' ? { ...call, status: 'ready' } : call));
  });
  const { breaches } = await explore(agent, { machine, maxStates: 4_000 });
  expect(breaches.map(({ invariant }) => invariant)).toContain(
    'a call that asks runs again once its questions are answered, declined or expired, and not before',
  );
});

test('a chart that ignores an answer leaves the run without a way to its end', async () => {
  const machine = recording((context, event) =>
    event.type === 'question.answered' ? context : fold(context, event),
  );
  const { breaches } = await explore(agent, { machine, maxStates: 4_000 });
  expect(breaches).not.toEqual([]);
});

test('a tool server that needs a sign-in breaks no invariant, whenever a person signs in', async () => {
  const signIn = {
    server: 'crm',
    begin: async () => ({ url: '', state: '', expiresAt: 0 }),
    isPending: async () => false,
    complete: async () => ({ server: 'crm', url: '', issuer: '', scopes: [] }),
    signOut: async () => false,
  };
  const source = { name: 'crm', signIn, connect: async () => [], close: async () => {} };
  const signing = createAgent({ ...agent.options, tools: [source, makeTool('look', { approval: true })] });
  const report = await explore(signing, { maxStates: 12_000 });
  expect(report.breaches).toEqual([]);
  const machine = recording((context, event) =>
    event.type === 'sign-in.requested' ? { ...fold(context, event), failure: null } : fold(context, event),
  );
  const { breaches } = await explore(signing, { machine, maxStates: 4_000 });
  expect(breaches).not.toEqual([]);
});
