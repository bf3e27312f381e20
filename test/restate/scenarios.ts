import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Run, Settled } from '../../agent/index.ts';
import { debugging } from './debugging.ts';
import { draining } from './draining.ts';
import { type Lab, until } from './lab.ts';
import { removal } from './removal.ts';
import { INPUT, journalOf, type Scenarios, waitingOf } from './runs.ts';

/** What is tried on the real server. */
export const SCENARIOS: Scenarios = {
  ...removal,
  ...draining,
  ...debugging,

  /** A decision counts once, and the second gets the name of the decider. */
  async approval(lab) {
    const run = await lab.agent('refunds').start(INPUT);
    const [call] = waitingOf(await run.settled()).approvals;
    assert.deepEqual(await run.approve(call ?? '', { by: 'ann' }), { accepted: true });
    const again = await run.approve(call ?? '', { by: 'bob' });
    assert.equal(again.accepted ? '' : `${again.code} ${again.by}`, 'already-decided ann');
    assert.equal((await run.settled()).status, 'finished');
    assert.equal(lab.begun(run.id), 1);
    return (await journalOf(run)).join(' ');
  },

  /** The worker is killed while the run waits and while its tool works: in doubt, until a person resolves it. */
  async 'killed in the tool and while it waits'(lab) {
    const run = await lab.agent('refunds').start(INPUT);
    await lab.startWorker({ TOOL_MS: '3000' });
    const [call] = waitingOf(await run.settled()).approvals;
    await lab.killWorker();
    // The object of the run is served by the worker, so the decision waits for one.
    const approving = run.approve(call ?? '');
    await lab.startWorker({ TOOL_MS: '3000' });
    assert.deepEqual(await approving, { accepted: true });
    await until(() => lab.begun(run.id) === 1);
    await lab.killWorker();
    assert.equal(lab.notes(run.id).length, 1, 'the worker was killed too late');
    const start = performance.now();
    await lab.startWorker();
    const { doubts } = waitingOf(await run.settled());
    const took = Math.round(performance.now() - start);
    assert.equal(doubts.length, 1);
    assert.equal(lab.begun(run.id), 1);
    assert.deepEqual(await run.resolve(doubts[0] ?? '', { retry: true, force: true }), { accepted: true });
    assert.equal((await run.settled()).status, 'finished');
    assert.equal(lab.begun(run.id), 2);
    return `in doubt ${took} ms after the worker's return, begun twice only because a person decided it`;
  },

  /** The delivery is killed in Restate with its worker: a resume finds that, and the interrupted call is in doubt. */
  async 'delivery killed in Restate'(lab) {
    await lab.startWorker({ TOOL_MS: '3000' });
    const run = await lab.agent('paying').start(INPUT);
    await until(() => lab.begun(run.id) === 1);
    await lab.resume(run.id);
    assert.equal(await lab.killDeliveries(run.id), 1, 'a resume began a second delivery');
    await lab.killWorker();
    assert.equal(lab.notes(run.id).length, 1, 'the worker was killed too late');
    await lab.startWorker();
    await sleep(2_000);
    assert.equal(await lab.isDelivered(run.id), true, 'the record still has the driver');
    await lab.resume(run.id);
    const { doubts } = waitingOf(await run.settled());
    assert.deepEqual([doubts.length, lab.begun(run.id)], [1, 1]);
    assert.deepEqual(await run.resolve(doubts[0] ?? '', { failed: 'not paid' }), { accepted: true });
    assert.equal((await run.settled()).status, 'finished');
    return (await journalOf(run)).join(' ');
  },

  /** The server is killed while a tool works: the worker continues, and nothing is in doubt. */
  async 'server killed in the tool'(lab) {
    await lab.startWorker({ TOOL_MS: '4000' });
    const run = await lab.agent('paying').start(INPUT);
    await until(() => lab.begun(run.id) === 1);
    await lab.server.restart(1_000);
    assert.equal(lab.notes(run.id).length, 1, 'the server was killed too late');
    const settled = await run.settled();
    assert.equal(settled.status, 'finished');
    assert.equal(lab.begun(run.id), 1);
    await lab.startWorker();
    return 'finished, begun once';
  },

  /** The server and the worker are killed while runs wait. */
  async 'server and worker killed while runs wait'(lab) {
    const runs = await Promise.all(Array.from({ length: 10 }, () => lab.agent('refunds').start(INPUT)));
    const waiting = await Promise.all(runs.map(run => run.settled()));
    await lab.killWorker();
    await lab.server.restart(200);
    await lab.startWorker();
    for (const [index, run] of runs.entries()) {
      const [call] = waitingOf(waiting[index]).approvals;
      assert.deepEqual(await run.approve(call ?? ''), { accepted: true });
    }
    const ends = await Promise.all(runs.map(run => run.settled()));
    assert.deepEqual([...new Set(ends.map(({ status }) => status))], ['finished']);
    assert.deepEqual([...new Set(runs.map(({ id }) => lab.begun(id)))], [1]);
    return '10 of 10 finished';
  },

  /** An approval expires while no process holds the run. */
  async timer(lab) {
    const run = await lab.agent('expiring').start(INPUT);
    const [call] = waitingOf(await run.settled()).approvals;
    assert.ok(call?.expiresAt !== undefined);
    await until(async () => (await run.settled()).status === 'finished');
    const late = Date.now() - call.expiresAt;
    const late2 = await run.approve(call);
    assert.equal(late2.accepted ? '' : late2.code, 'expired');
    assert.ok((await journalOf(run)).includes('timer.fired'));
    assert.equal(lab.begun(run.id), 0);
    return `settled ${late} ms after the deadline`;
  },

  /** A child run ends within its parent's batch, and another waits for a person; the worker is killed meanwhile. */
  async 'sub-agents'(lab) {
    const run = await lab.agent('parent').start('Was it paid? Pay.');
    const [call] = waitingOf(await run.settled()).approvals;
    assert.equal(call?.name, 'refund');
    assert.notEqual(call.runId, run.id);
    await lab.startWorker();
    assert.deepEqual(await run.approve(call), { accepted: true });
    const settled = await run.settled();
    assert.equal(settled.status === 'finished' && settled.text, 'Done.');
    assert.equal(lab.begun(call.runId), 1);
    return (await journalOf(run)).join(' ');
  },

  /** Cancelling a parent cancels the child that waits. */
  async 'cancelled with its parent'(lab) {
    const agent = lab.agent('parent');
    const run = await agent.start('Was it paid? Pay.');
    const [call] = waitingOf(await run.settled()).approvals;
    assert.deepEqual(await run.cancel({ reason: 'enough' }), { accepted: true });
    assert.equal((await run.settled()).status, 'cancelled');
    await until(async () => (await agent.store.get(call?.runId ?? ''))?.status === 'cancelled');
    return 'both are cancelled';
  },

  /** A run is cancelled while its tool works in another process. */
  async 'cancelled at work'(lab) {
    await lab.startWorker({ TOOL_MS: '60000' });
    const run = await lab.agent('waiting').start('Wait.');
    await until(async () => (await journalOf(run)).includes('tool.started'));
    const start = performance.now();
    assert.deepEqual(await run.cancel(), { accepted: true });
    assert.equal((await run.settled()).status, 'cancelled');
    const took = Math.round(performance.now() - start);
    await lab.startWorker();
    return `${took} ms`;
  },

  /** Pause, step, message and unpause act on a run that another process drives. */
  async 'pause and step'(lab) {
    const run = await lab.agent('refunds').start(INPUT, { paused: true });
    assert.equal(waitingOf(await run.settled()).paused, true);
    await run.step();
    await until(async () => (await journalOf(run)).filter(type => type === 'turn.completed').length === 1);
    assert.equal(waitingOf(await run.settled()).paused, true);
    await run.send('Hurry.');
    await run.unpause();
    const [call] = waitingOf(await run.settled()).approvals;
    await run.reject(call ?? '', { reason: 'no' });
    assert.equal((await run.settled()).status, 'finished');
    return (await journalOf(run)).join(' ');
  },

  /** The text of a turn reaches a reader in this process before the turn ends. */
  async deltas(lab) {
    const run = await lab.agent('talking').start('Talk.');
    const pieces: string[] = [];
    for await (const text of run.text()) pieces.push(text);
    assert.ok(pieces.length >= 4, `only ${pieces.length} pieces`);
    const settled = await run.settled();
    const whole = settled.status === 'finished' ? settled.text : '';
    assert.ok(whole.startsWith(pieces.join('')), 'the pieces are not the beginning of the text');
    return `${pieces.length} pieces`;
  },

  /** An agent that the worker lacks, another chart and a damaged journal quarantine the run, and it can be resumed. */
  async 'set-up errors quarantine'(lab) {
    await lab.startWorker({ WITHOUT: 'refunds' });
    const run = await lab.agent('refunds').start(INPUT);
    const held = waitingOf(await run.settled());
    assert.equal(held.paused, true);
    const [pause] = held.open;
    assert.match(pause?.reason ?? '', /serves no agent "refunds"/);
    const { length } = await journalOf(run);
    await sleep(2_000);
    assert.equal((await journalOf(run)).length, length, 'it is tried again');
    await lab.startWorker();
    await run.unpause();
    assert.equal(waitingOf(await run.settled()).approvals.length, 1);
    const [damaged, other] = await Promise.all([damage(lab, { type: 'nonsense' }), damage(lab, null)]);
    return `${pause?.reason} | ${damaged} | ${other}`;
  },

  /** Lists runs by SQL: filters, cursor and counts. */
  async listing(lab) {
    const agent = lab.agent('refunds');
    const labels = { batch: crypto.randomUUID() };
    for (const title of ['one', 'two', 'three'])
      await (await agent.start(INPUT, { labels, title })).settled();
    const first = await agent.store.list({ labels, limit: 2, order: 'asc' });
    const second = await agent.store.list({ labels, limit: 2, order: 'asc', cursor: first.next ?? '' });
    const titles = [...first.runs, ...second.runs].map(({ title }) => title);
    assert.deepEqual(titles, ['one', 'two', 'three']);
    assert.equal(second.next, undefined);
    assert.deepEqual((await agent.store.list({ labels, status: 'finished' })).runs, []);
    return 'filters, cursor, order';
  },

  /** 120 runs with a `once` tool, 12 at a time; the worker is killed 8 times, each time while a tool works. */
  async many(lab) {
    const slowly = { TOOL_MS: '300' };
    await lab.startWorker(slowly);
    const agent = lab.agent('paying');
    const start = performance.now();
    const begun: Run[] = [];
    const ends: Settled[] = [];
    let left = 120;
    const playing = Array.from({ length: 12 }, async () => {
      for (; left > 0; ) {
        left -= 1;
        const run = await agent.start(INPUT);
        begun.push(run);
        ends.push(await run.settled());
      }
    });
    let cutOff = 0;
    for (let kill = 0; kill < 8; kill += 1) {
      const atWork = () => begun.filter(({ id }) => lab.notes(id).length === 1).length;
      const earlier = atWork();
      await until(() => atWork() > earlier);
      await lab.killWorker();
      assert.ok(atWork() > earlier, 'the worker was killed too late');
      cutOff += atWork() - earlier;
      await lab.startWorker(slowly);
    }
    await Promise.all(playing);
    const took = Math.round((performance.now() - start) / 1_000);
    const finished = ends.filter(({ status }) => status === 'finished').length;
    const doubted = ends.filter(end => end.status === 'waiting' && end.doubts.length === 1).length;
    assert.equal(begun.length, 120);
    assert.equal(finished + doubted, 120, 'a run is lost');
    assert.deepEqual(
      begun.filter(({ id }) => lab.begun(id) > 1),
      [],
      'a call began twice',
    );
    assert.ok(doubted >= cutOff, 'a call was cut off and is not in doubt');
    return `120 runs, 8 kills: ${finished} finished, ${doubted} in doubt, 0 begun twice, 0 lost, ${took} s`;
  },

  /** One turn of a run, from one at a time and from 16. */
  async figures(lab) {
    await lab.startWorker();
    const agent = lab.agent('paying');
    const found: string[] = [];
    for (const atOnce of [1, 16]) {
      const times: number[] = [];
      const start = performance.now();
      let left = atOnce === 1 ? 8 : 96;
      const runs = left;
      const playing = Array.from({ length: atOnce }, async () => {
        for (; left > 0; ) {
          left -= 1;
          const from = performance.now();
          const settled = await (await agent.start(INPUT)).settled();
          assert.equal(settled.status, 'finished');
          times.push(performance.now() - from);
        }
      });
      await Promise.all(playing);
      const perSecond = Math.round((runs * 3_000) / (performance.now() - start));
      times.sort((one, other) => one - other);
      found.push(
        `${atOnce} at once: ${perSecond} turns/s, a run of 3 turns p50 ${Math.round(times[times.length >> 1] ?? 0)} ms`,
      );
    }
    return found.join('; ');
  },
};

/** Damages the journal of a waiting run, then has it driven. Returns why it is quarantined. */
async function damage(lab: Lab, event: unknown): Promise<string> {
  const agent = lab.agent('refunds');
  const run = await agent.start(INPUT);
  await run.settled();
  await lab.changeState(run.id, state => ({ ...state, 'entry 2': { event } }));
  await lab.resume(run.id);
  await until(async () => (await agent.store.get(run.id))?.state === 'quarantined');
  return (await agent.store.get(run.id))?.why ?? '';
}
