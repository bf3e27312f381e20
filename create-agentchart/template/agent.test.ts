import { scripted } from 'agentchart/adapters/scripted';
import { explore } from 'agentchart/testing';
import { beforeEach, expect, test } from 'vitest';
import { createDesk, payments } from './agent.ts';

/** A script plays the model, and runs are in memory: no key, no network, no waiting. */

const call = (orderId: string, cents: number) => ({ name: 'refund', arguments: { orderId, cents } });
const mia = { name: 'mia', groups: ['managers'] };

beforeEach(() => payments.clear());

test('a large refund waits for a manager who did not ask for it', async () => {
  const model = scripted([{ toolCalls: [call('A-1001', 4200)] }, { text: 'Refunded.' }]);
  const run = await createDesk({ model }).start('Refund order A-1001.', { by: 'ann' });
  const waiting = await run.settled();
  expect(waiting).toMatchObject({
    status: 'waiting',
    approvals: [{ name: 'refund', input: { cents: 4200 } }],
  });
  expect([...payments.values()]).toEqual([]);

  const { callId = '' } = waiting.status === 'waiting' ? (waiting.approvals[0] ?? {}) : {};
  const own = await run.approve(callId, { as: { name: 'ann', groups: ['managers'] } });
  expect(own).toMatchObject({ accepted: false, code: 'not-allowed' });
  expect(await run.approve(callId, { as: mia })).toEqual({ accepted: true });
  expect(await run.settled()).toMatchObject({ status: 'finished', text: 'Refunded.' });
  expect([...payments.values()]).toEqual([4200]);
});

test('a small refund needs no approval', async () => {
  const model = scripted([{ toolCalls: [call('A-1002', 900)] }, { text: 'Refunded.' }]);
  expect(await createDesk({ model }).run('Refund order A-1002.')).toMatchObject({ status: 'finished' });
  expect([...payments.values()]).toEqual([900]);
});

test('a conversation refunds at most a hundred dollars', async () => {
  const model = scripted([{ toolCalls: [call('A-1001', 10_100)] }, { text: 'I may not.' }]);
  expect(await createDesk({ model }).run('Refund 101 dollars.')).toMatchObject({ status: 'finished' });
  expect([...payments.values()]).toEqual([]);
});

test('no path of a run breaks an invariant, with crashes and decisions in any order', () => {
  const { breaches } = explore(createDesk({ model: scripted([]) }), { maxStates: 500 });
  expect(breaches).toEqual([]);
});
