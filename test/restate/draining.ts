import assert from 'node:assert/strict';
import type { Run, Settled } from '../../agent/index.ts';
import { type Lab, until } from './lab.ts';
import { INPUT, journalOf, type Scenarios, waitingOf } from './runs.ts';

/** Workers that get SIGTERM. */
export const draining: Scenarios = {
  /** 80 runs with a `once` tool, 10 at a time; the worker is stopped 5 times, each time while tools work. */
  async 'drained under load'(lab) {
    const slowly = { TOOL_MS: '300' };
    await lab.startWorker(slowly);
    const agent = lab.agent('paying');
    const begun: Run[] = [];
    const ends: Settled[] = [];
    let left = 80;
    const playing = Array.from({ length: 10 }, async () => {
      for (; left > 0; ) {
        left -= 1;
        const run = await agent.start(INPUT);
        begun.push(run);
        ends.push(await run.settled());
      }
    });
    const took: number[] = [];
    let atWork = 0;
    for (let stop = 0; stop < 5; stop += 1) {
      const working = () => begun.filter(({ id }) => lab.notes(id).length === 1).length;
      await until(() => working() > 0);
      atWork += working();
      const start = performance.now();
      assert.equal(await lab.drainWorker(), 0, 'runs were not handed over');
      took.push(Math.round(performance.now() - start));
      assert.equal(working(), 0, 'a call was cut off');
      await lab.startWorker(slowly);
    }
    await Promise.all(playing);
    assert.ok(atWork >= 5, 'the worker was stopped too late');
    assert.deepEqual([...new Set(ends.map(({ status }) => status))], ['finished']);
    assert.equal(ends.length, 80);
    assert.deepEqual([...new Set(begun.map(({ id }) => lab.begun(id)))], [1]);
    const replaced = await Promise.all(begun.map(countReplaced));
    assert.deepEqual([...new Set(replaced)], [0], 'a run was taken over, not handed over');
    return `80 of 80 finished, ${atWork} calls at work at 5 stops, none in doubt; stopped within ${Math.max(...took)} ms`;
  },

  /** Calls that take longer than the grace time: a `none` call is repeated, a `once` call is in doubt. */
  async 'drained before a call ends'(lab) {
    await lab.startWorker({ TOOL_MS: '60000', GRACE_MS: '300' });
    const waiting = await lab.agent('waiting').start('Wait.');
    const paying = await lab.agent('paying').start(INPUT);
    await until(() => lab.begun(paying.id) === 1);
    await until(async () => (await journalOf(waiting)).includes('tool.started'));
    const start = performance.now();
    assert.equal(await lab.drainWorker(), 0);
    const took = Math.round(performance.now() - start);
    assert.equal(lab.notes(paying.id).length, 1, 'the call ended');
    await lab.startWorker();
    assert.equal((await waiting.settled()).status, 'finished');
    assert.equal(waitingOf(await paying.settled()).doubts.length, 1);
    assert.equal(lab.begun(paying.id), 1);
    return `stopped within ${took} ms`;
  },

  /** A run is handed over to a worker of another deployment; nothing stays with the old one. */
  async 'handed over to a new deployment'(lab) {
    await lab.startWorker({ TOOL_MS: '5000' });
    const runs = await Promise.all(Array.from({ length: 5 }, () => lab.agent('paying').start(INPUT)));
    await until(() => runs.every(({ id }) => lab.notes(id).length === 1));
    const [old] = await pinned(lab);
    const stopOld = await lab.deployWorker();
    assert.ok(old !== undefined && (await pinned(lab)).includes(old), 'no run is with the old deployment');
    assert.equal(await stopOld(), 0);
    const ends = await Promise.all(runs.map(run => run.settled()));
    assert.deepEqual([...new Set(ends.map(({ status }) => status))], ['finished']);
    assert.deepEqual([...new Set(runs.map(({ id }) => lab.begun(id)))], [1]);
    await until(async () => !(await pinned(lab)).includes(old));
    return '5 of 5 finished, nothing stays with the old deployment';
  },
};

/** How many claims of a run replaced an owner that had not released it. */
async function countReplaced(run: Run): Promise<number> {
  const entries = await run.source.store.read(run.id);
  return entries.filter(({ event }) => event.type === 'run.claimed' && event.replaces !== undefined).length;
}

/** The deployments that invocations in progress have to continue with. */
async function pinned(lab: Lab): Promise<string[]> {
  const rows = await lab.query(
    "select distinct pinned_deployment_id from sys_invocation where pinned_deployment_id is not null and status <> 'completed'",
  );
  return rows.map(row => String(row.pinned_deployment_id));
}
