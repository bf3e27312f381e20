import assert from 'node:assert/strict';
import { INPUT, journalOf, type Scenarios, waitingOf } from './runs.ts';

/** The commands of the debugger, on runs that another process drives. */
export const debugging: Scenarios = {
  /** A run is held before its tools, the input of a call is edited, and the run goes on with it. */
  async 'breakpoint and edit'(lab) {
    const run = await lab.agent('refunds').start(INPUT, { paused: true });
    waitingOf(await run.settled());
    const breakpoints = [{ id: 'tools', before: 'executeTools' as const }];
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
};
