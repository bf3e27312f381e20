import assert from 'node:assert/strict';
import { chartIdentity } from '../../machines/snapshot.ts';
import { textOf, userMessage } from '../../protocol/message.ts';
import { until } from './lab.ts';
import { INPUT, journalOf, type Scenarios, waitingOf } from './runs.ts';

/** The commands of the debugger, on runs that another process drives. */
export const debugging: Scenarios = {
  /** A run is held before its tools, the input of a call is edited, and the run continues with it. */
  async 'breakpoint and edit'(lab) {
    const run = await lab.agent('refunds').start(INPUT, { paused: true });
    waitingOf(await run.settled());
    const breakpoints = [{ id: 'tools', next: 'executeTools' as const }];
    assert.deepEqual(await run.setBreakpoints(breakpoints), { accepted: true });
    await run.unpause();
    const held = waitingOf(await run.settled());
    assert.equal(held.paused, true);
    assert.deepEqual(await run.editCall('call_0_0', { input: { orderId: 'A-1002' } }), { accepted: true });
    assert.deepEqual(await run.setBreakpoints([]), { accepted: true });
    await run.unpause();
    assert.equal(waitingOf(await run.settled()).approvals.length, 1);
    const types = await journalOf(run);
    assert.ok(types.includes('call.edited') && types.includes('breakpoints.set'));
    return types.join(' ');
  },

  /** A paused fork is decided differently from its original. */
  async fork(lab) {
    const run = await lab.agent('refunds').start(INPUT);
    const [call] = waitingOf(await run.settled()).approvals;
    assert.deepEqual(await run.approve(call ?? ''), { accepted: true });
    assert.equal((await run.settled()).status, 'finished');
    const at = (await journalOf(run)).indexOf('approval.decided');
    const fork = await run.fork({ at });
    const [again] = waitingOf(await fork.settled()).approvals;
    assert.deepEqual(await fork.reject(again ?? '', { reason: 'no' }), { accepted: true });
    assert.equal((await fork.settled()).status, 'finished');
    assert.deepEqual([lab.begun(run.id), lab.begun(fork.id)], [1, 0]);
    return (await journalOf(fork)).join(' ');
  },

  /** The latest reply is replaced while the run is held, then its parameters; the run continues with both. */
  async 'edited reply and parameters'(lab) {
    const run = await lab.agent('refunds').start(INPUT, { paused: true });
    waitingOf(await run.settled());
    await run.setBreakpoints([{ id: 'tools', next: 'executeTools' }]);
    await run.unpause();
    waitingOf(await run.settled());
    const edited = { name: 'lookup_order', input: { orderId: 'A-1002' } };
    assert.deepEqual(await run.editTurn({ text: 'I look it up.', calls: [edited] }), { accepted: true });
    const settings = { temperature: 0.5 };
    assert.deepEqual(await run.setParams({ settings }), { accepted: true });
    await run.setBreakpoints([]);
    await run.unpause();
    assert.equal(waitingOf(await run.settled()).approvals.length, 1);
    const { context } = run.durable.state;
    assert.deepEqual(context.params.settings, settings);
    const [looked] = context.transcript.filter(item => item.type === 'tool_call');
    assert.equal(looked?.arguments, JSON.stringify(edited.input));
    return (await journalOf(run)).join(' ');
  },

  /** The transcript is replaced between turns, and the run continues from it. */
  async 'edited transcript'(lab) {
    const run = await lab.agent('refunds').start(INPUT, { paused: true });
    waitingOf(await run.settled());
    const items = [userMessage('Refund order A-1003.')];
    assert.deepEqual(await run.editTranscript(items), { accepted: true });
    await run.unpause();
    assert.equal(waitingOf(await run.settled()).approvals.length, 1);
    const [first] = run.durable.state.context.transcript;
    assert.equal(first?.type === 'message' && textOf(first), 'Refund order A-1003.');
    return (await journalOf(run)).join(' ');
  },

  /** A fork takes the results of its original: no tool is executed. */
  async 'fork with replayed tools'(lab) {
    const run = await lab.agent('refunds').start(INPUT);
    const [call] = waitingOf(await run.settled()).approvals;
    await run.approve(call ?? '');
    assert.equal((await run.settled()).status, 'finished');
    const fork = await run.fork({ at: 1, replayTools: true });
    const [again] = waitingOf(await fork.settled()).approvals;
    assert.deepEqual(await fork.approve(again ?? ''), { accepted: true });
    assert.equal((await fork.settled()).status, 'finished');
    const played = (await fork.source.store.read(fork.id)).filter(({ event }) => 'played' in event);
    assert.deepEqual([played.length, lab.begun(run.id), lab.begun(fork.id)], [2, 1, 0]);
    return (await journalOf(fork)).join(' ');
  },

  /** A waiting run of an older chart is migrated; its successor is approved and finishes. */
  async migration(lab) {
    const agent = lab.agent('refunds');
    const run = await agent.start(INPUT);
    waitingOf(await run.settled());
    await until(async () => !(await lab.isDelivered(run.id)));
    const chart = { version: chartIdentity().version - 1, hash: 'of the release before' };
    await lab.changeState(run.id, state => {
      const { event, ...entry } = state['entry 1'] as { event: object };
      const { record, ...meta } = state.meta as { record: object };
      return {
        ...state,
        'entry 1': { ...entry, event: { ...event, chart } },
        meta: { ...meta, record: { ...record, chart } },
      };
    });
    await assert.rejects(agent.open(run.id), { code: 'chart-mismatch' });
    const successor = await agent.migrate(run.id);
    const [call] = waitingOf(await successor.settled()).approvals;
    assert.deepEqual(await successor.approve(call ?? ''), { accepted: true });
    assert.equal((await successor.settled()).status, 'finished');
    // The old id begins the new one: both counts have the same call.
    assert.deepEqual([lab.begun(run.id), lab.begun(successor.id)], [1, 1]);
    return `${run.id} continued as ${successor.id}`;
  },
};
