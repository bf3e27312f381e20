import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { ScriptedTurn } from '../../../adapters/scripted/scripted-turns.ts';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { calls, countEvents, eventsOf, makeTool } from '../../support/engine/agents.ts';
import { BACK, BILLING, heard, makeDesk, toolsOf, wordsIn } from '../../support/engine/front-desk.ts';

describe('A hand-off', () => {
  test('makes the answer of the sub-agent that of the run, without another model call', async () => {
    const { agent, store, desk, clerk } = makeDesk({
      front: [calls(BILLING)],
      billing: [calls('look_up'), { text: 'You owe 5.' }],
    });
    const run = await agent.start('What do I owe?');
    const settled = await run.settled();
    expect(settled).toMatchObject({ status: 'finished', agent: 'billing', text: 'You owe 5.', turns: 3 });
    expect([desk.length, clerk.length]).toEqual([1, 2]);
    for (const { runId } of (await store.list()).runs)
      expect((await replayRun(store, runId, () => {})).equal).toBe(true);
  });

  test('shows the sub-agent the conversation, and gives it its own tools and instructions only', async () => {
    const { agent, store, desk, clerk } = makeDesk({
      front: [calls('hours'), calls(BILLING)],
      billing: [{ text: 'You owe 5.' }],
    });
    await agent.run('What do I owe?');
    expect(wordsIn(clerk[0])).toEqual([
      'user: What do I owe?',
      'call hours',
      'result "hours ran"',
      `call ${BILLING}`,
      'result "billing sees the conversation so far."',
    ]);
    expect(toolsOf(clerk[0])).toEqual(['look_up', BACK]);
    expect(toolsOf(desk[1])).toEqual(['hours', BILLING]);
    expect(clerk[0]?.instructions).toBe('You are billing.');
    const [child] = (await store.list({ agent: 'billing' })).runs;
    const [started] = await eventsOf(store, child?.runId ?? '');
    expect(started).toMatchObject({ handedBy: 'front_desk', input: [{ type: 'tool_result' }] });
  });

  test('gives the sub-agent what the filter leaves, and no call without its result', async () => {
    const clerk = heard([{ text: 'You owe 5.' }]);
    const billing = createAgent({ name: 'billing', model: clerk.model });
    const transfer = billing.asTool({
      name: 'to_billing',
      description: 'Invoices.',
      answers: 'directly',
      sees: 'transcript',
      filter: items => items.slice(2),
    });
    const front = createAgent({
      name: 'front_desk',
      model: heard([calls('hours'), calls('to_billing')]).model,
      tools: [makeTool('hours'), transfer],
    });
    expect(await front.run('Secret.')).toMatchObject({ agent: 'billing', text: 'You owe 5.' });
    expect(wordsIn(clerk.requests[0])).toEqual([
      'call to_billing',
      'result "billing sees the conversation so far."',
    ]);
  });

  test('gives further messages to the sub-agent, which remembers what it did', async () => {
    const { agent, desk, clerk } = makeDesk({
      front: [calls(BILLING)],
      billing: [calls('look_up'), { text: 'You owe 5.' }, { text: 'Since May.' }, { text: 'Bye.' }],
    });
    const first = await agent.start('What do I owe?');
    await first.settled();
    const second = await agent.start('Since when?', { continues: first.id });
    expect(await second.settled()).toMatchObject({
      status: 'finished',
      agent: 'billing',
      text: 'Since May.',
    });
    const third = await agent.start('Thanks.', { continues: second.id });
    expect(await third.settled()).toMatchObject({ status: 'finished', agent: 'billing', text: 'Bye.' });
    expect([desk.length, clerk.length]).toEqual([1, 4]);
    expect(wordsIn(clerk[3])).toEqual([
      'user: What do I owe?',
      `call ${BILLING}`,
      'result "billing sees the conversation so far."',
      'call look_up',
      'result "look_up ran"',
      'assistant: You owe 5.',
      'user: Since when?',
      'assistant: Since May.',
      'user: Thanks.',
    ]);
  });

  test('ends when the sub-agent hands back: the run of the message is answered by its own model', async () => {
    const { agent, desk, clerk } = makeDesk({
      front: [calls(BILLING), { text: 'We open at nine.' }, { text: 'Bye.' }],
      billing: [{ text: 'You owe 5.' }, calls([BACK, { note: 'asks for the hours' }])],
    });
    const first = await agent.start('What do I owe?');
    await first.settled();
    const second = await agent.start('When do you open?', { continues: first.id });
    const settled = await second.settled();
    expect(settled).toMatchObject({ agent: 'front_desk', text: 'We open at nine.', turns: 2 });
    expect(wordsIn(desk[1])).toEqual([
      'user: What do I owe?',
      `call ${BILLING}`,
      'result "You owe 5."',
      'user: When do you open?',
      `call ${BILLING}`,
      'result "billing handed the conversation back: asks for the hours"',
    ]);
    expect(toolsOf(desk[1])).toEqual(['hours', BILLING]);
    const third = await agent.start('Thanks.', { continues: second.id });
    expect(await third.settled()).toMatchObject({ agent: 'front_desk', text: 'Bye.' });
    expect(clerk.length).toBe(2);
  });

  test('in a turn with other calls is refused, and made again after their results', async () => {
    const { agent, clerk } = makeDesk({
      front: [calls('hours', BILLING), calls(BILLING)],
      billing: [{ text: 'You owe 5.' }],
    });
    expect(await agent.run('What do I owe?')).toMatchObject({ agent: 'billing', text: 'You owe 5.' });
    expect(wordsIn(clerk[0])).toContain(
      'result "Not run: hand the conversation over in a turn of its own, once the other calls have their results."',
    );
  });

  test('stays alone in its turn: no edit puts another call beside it', async () => {
    const { agent, clerk } = makeDesk({ front: [calls(BILLING)], billing: [{ text: 'You owe 5.' }] });
    const run = await agent.start('What do I owe?', { paused: true });
    await run.step();
    await run.settled();
    const [handOff] = run.context.calls;
    const made = { callId: handOff?.callId, name: BILLING, input: {} };
    const refused = {
      code: 'input-invalid',
      message: expect.stringContaining('hands the conversation over'),
    };
    expect(await run.editTurn({ calls: [made, { name: 'hours', input: {} }] })).toMatchObject(refused);
    const hours = { type: 'tool_call', callId: 'hours', name: 'hours', arguments: '{}' } as const;
    expect(await run.editTranscript([...run.context.transcript, hours])).toMatchObject(refused);
    expect(await run.editTurn({ text: 'Billing knows.', calls: [made] })).toEqual({ accepted: true });
    await run.unpause();
    expect(await run.settled()).toMatchObject({ agent: 'billing', text: 'You owe 5.' });
    expect(clerk).toHaveLength(1);
  });

  test('that goes in circles ends at the limit of the run', async () => {
    const { agent } = makeDesk({
      front: Array.from({ length: 40 }, () => calls(BILLING)),
      billing: Array.from({ length: 40 }, () => calls(BACK)),
      ofFront: { limits: { turns: 9 }, onLimit: 'stop' },
    });
    const settled = await agent.run('What do I owe?');
    expect(settled).toMatchObject({ status: 'finished', incomplete: { reason: 'turns' } });
    expect(settled.turns).toBeLessThanOrEqual(10);
  });

  test('to an agent that fails leaves the conversation with the caller, who reads why', async () => {
    const { agent, desk } = makeDesk({
      front: [calls(BILLING), { text: 'Billing is closed.' }, { text: 'Still.' }],
      billing: [{ error: { code: 'invalid-request', message: 'no' } } as ScriptedTurn],
      ofBilling: { retry: { attempts: 1 } },
    });
    const run = await agent.start('What do I owe?');
    expect(await run.settled()).toMatchObject({ agent: 'front_desk', text: 'Billing is closed.' });
    expect(wordsIn(desk[1]).at(-1)).toContain('billing failed');
    const next = await agent.start('And now?', { continues: run.id });
    expect(await next.settled()).toMatchObject({ agent: 'front_desk', text: 'Still.' });
  });

  test('surfaces the approvals of the sub-agent at the run, and its answer after them', async () => {
    const { agent, store } = makeDesk({
      front: [calls(BILLING)],
      billing: [calls('refund'), { text: 'Refunded.' }, { text: 'Yes.' }],
      ofBilling: { tools: [makeTool('refund', { approval: true })] },
    });
    const run = await agent.start('Refund me.');
    const waiting = await run.settled();
    if (waiting.status !== 'waiting') throw new Error(`expected to wait, got ${waiting.status}`);
    expect(waiting.approvals).toMatchObject([{ name: 'refund' }]);
    await run.send('Please.');
    await run.approve(waiting.approvals[0]?.callId ?? '');
    expect(await run.settled()).toMatchObject({ status: 'finished', agent: 'billing', text: 'Yes.' });
    expect(await countEvents(store, run.id, 'turn.completed')).toBe(1);
    const { context } = (await loadRun(store, run.id)).state;
    expect(context.inbox).toEqual([]);
  });

  test('of a hand-off reaches the last agent, and the next message finds it through both', async () => {
    const last = heard([{ text: 'Shipped.' }, { text: 'Tomorrow.' }]);
    const shipping = createAgent({ name: 'shipping', model: last.model });
    const { agent } = makeDesk({
      front: [calls(BILLING)],
      billing: [calls('transfer_to_shipping')],
      ofBilling: { handoffs: [shipping] },
    });
    const first = await agent.start('Where is it?');
    expect(await first.settled()).toMatchObject({ agent: 'shipping', text: 'Shipped.' });
    const second = await agent.start('When?', { continues: first.id });
    expect(await second.settled()).toMatchObject({ agent: 'shipping', text: 'Tomorrow.' });
    expect(wordsIn(last.requests[1]).slice(-2)).toEqual(['assistant: Shipped.', 'user: When?']);
  });

  test('whose answer was sent back leaves a message that comes before the next turn with the caller', async () => {
    const { agent, desk, clerk } = makeDesk({
      front: [calls(BILLING), { text: 'You owe nothing.' }],
      billing: [{ text: 'You owe 5.' }],
      ofFront: {
        guardrails: {
          answer: text => (text.includes('5') ? { type: 'ask', reason: 'it names a sum' } : { type: 'pass' }),
        },
      },
    });
    const run = await agent.start('What do I owe?');
    const waiting = await run.settled();
    if (waiting.status !== 'waiting') throw new Error(`expected to wait, got ${waiting.status}`);
    await run.pause();
    await run.reject(waiting.reviews[0] as never, { reason: 'Name no sum.' });
    await run.send('Well?');
    await run.unpause();
    expect(await run.settled()).toMatchObject({ agent: 'front_desk', text: 'You owe nothing.' });
    expect(wordsIn(desk[1]).slice(-2)).toEqual([
      'developer: This answer was sent back by a person who reviews answers. Name no sum.',
      'user: Well?',
    ]);
    expect(clerk).toHaveLength(1);
  });

  test('has its answer checked by the caller too, which speaks again if it is sent back', async () => {
    const { agent, desk } = makeDesk({
      front: [calls(BILLING), { text: 'You owe five.' }],
      billing: [{ text: 'You owe 5.' }],
      ofFront: {
        guardrails: {
          answer: text =>
            /\d/.test(text) ? { type: 'block', reason: 'Write numbers as words.' } : { type: 'pass' },
        },
      },
    });
    expect(await agent.run('What do I owe?')).toMatchObject({ agent: 'front_desk', text: 'You owe five.' });
    expect(wordsIn(desk[1]).at(-1)).toBe('developer: Write numbers as words.');
  });

  test('keeps the output of the sub-agent under guardrails of the caller that pass it', async () => {
    const { agent } = makeDesk({
      front: [calls(BILLING)],
      billing: [{ text: '{"cents":500}' }],
      ofBilling: { output: z.object({ cents: z.number() }) },
      ofFront: { guardrails: { answer: () => ({ type: 'pass' }) } },
    });
    expect(await agent.run('What do I owe?')).toMatchObject({ agent: 'billing', output: { cents: 500 } });
  });

  test('does not copy the conversation: each run has only what is new', async () => {
    const { agent, store } = makeDesk({
      front: [calls(BILLING)],
      billing: Array.from({ length: 20 }, (_, turn) => ({ text: `${turn} ${'x'.repeat(1_000)}` })),
    });
    let run = await agent.start('y'.repeat(10_000));
    await run.settled();
    for (let turn = 1; turn < 20; turn += 1) {
      run = await agent.start(`again ${turn}`, { continues: run.id });
      await run.settled();
    }
    let chars = 0;
    for (const { runId } of (await store.list({ limit: 100 })).runs)
      chars += JSON.stringify(await eventsOf(store, runId)).length;
    expect(chars).toBeLessThan(20 * 10_000);
  });
});

test('A run that can be handed back is compatible with the agent that it was begun by', async () => {
  const { agent, store } = makeDesk({ front: [calls(BILLING)], billing: [{ text: 'You owe 5.' }] });
  await agent.run('What do I owe?');
  for (const { runId } of (await store.list()).runs)
    expect((await agent.check(runId)).differences).toEqual([]);
});
