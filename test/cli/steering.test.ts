import { setInterval } from 'node:timers';
import { describe, expect, test } from 'vitest';
import { sqlite } from '../../stores/sqlite.ts';
import { AGENT, calling, Desk, eventsOf, REFUND, type Started, typesOf } from '../support/cli/desk.ts';

const done = { text: 'Done.' };
const STARTED = '"type":"tool.started"';

async function startedTool(desk: Desk, ...args: string[]): Promise<{ started: Started; runId: string }> {
  const started = desk.start(['run', '--agent', AGENT, '--json', ...args, 'go'], desk.model);
  started.child.stdin.end();
  await started.printed(STARTED);
  const listed = await desk.run(['runs', '--json']);
  return { started, runId: JSON.parse(listed.stdout).runId };
}

/** Extends the lease of the process that last drove the run. Returns when it ends, in ms since the epoch. */
async function extendLease(desk: Desk, runId: string, leaseMs: number): Promise<number> {
  const store = sqlite(desk.store);
  const { epoch = 0 } = (await store.get(runId)) ?? {};
  const lost = await store.renew([{ runId, epoch }], { now: Date.now(), leaseMs });
  const { leaseUntil = 0 } = (await store.get(runId)) ?? {};
  await store.close();
  expect(lost).toEqual([]);
  return leaseUntil;
}

/** Presses Ctrl-C until the process ends. */
async function interruptUntilEnd(started: Started) {
  const pressing = setInterval(() => started.child.kill('SIGINT'), 100);
  const ended = await started.ended;
  clearInterval(pressing);
  return ended;
}

describe.concurrent('Ctrl-C', () => {
  test.each(['SIGINT', 'SIGTERM'] as const)(
    '%s cancels the run, and the journal records which calls have no result',
    async signal => {
      const desk = new Desk([calling('wait'), done]);
      const { started, runId } = await startedTool(desk, '--by', 'ada');
      started.child.kill(signal);
      const ended = await started.ended;
      expect(ended.code).toBe(1);
      expect(ended.stderr).toContain('Cancelling the run');
      expect((await desk.journal(runId)).at(-1)).toMatchObject({
        type: 'run.cancelled',
        reason: 'interrupted',
        by: 'ada',
        unsettled: ['call_0_0'],
      });
    },
  );

  test('twice exits immediately, and the run can be resumed', async () => {
    const desk = new Desk([calling('ignore'), done]);
    const { started, runId } = await startedTool(desk);
    started.child.kill('SIGINT');
    await started.printed('Cancelling the run');
    const ended = await interruptUntilEnd(started);
    expect(ended.code).toBe(130);
    expect(ended.stderr).toContain(`resume ${runId}`);
    expect(typesOf(await desk.journal(runId))).not.toContain('run.cancelled');
    const resumed = await desk.run(['resume', runId]);
    expect(resumed.code).toBe(3);
    expect(resumed.stdout).toContain('ignore may or may not have happened');
  });

  test('delivered twice for one key press cancels and does not exit', async () => {
    const desk = new Desk([calling('wait'), done]);
    const { started, runId } = await startedTool(desk);
    started.child.kill('SIGINT');
    started.child.kill('SIGINT');
    expect((await started.ended).code).toBe(1);
    expect(typesOf(await desk.journal(runId)).at(-1)).toBe('run.cancelled');
  });

  test('ends the process even if a tool ignores the abort signal', async () => {
    const desk = new Desk([calling('ignore'), done]);
    const { started, runId } = await startedTool(desk);
    started.child.kill('SIGINT');
    expect((await started.ended).code).toBe(1);
    expect((await desk.journal(runId)).at(-1)).toMatchObject({
      type: 'run.cancelled',
      unsettled: ['call_0_0'],
    });
  });
});

describe.concurrent('a run that another process drives', () => {
  test('is followed, left running by Ctrl-C, and cancelled by another command', async () => {
    const desk = new Desk([calling('wait'), done]);
    const { started, runId } = await startedTool(desk);
    const follower = desk.start(['resume', runId]);
    follower.child.stdin.end();
    await follower.printed(`Process ${started.child.pid} on`);
    follower.child.kill('SIGINT');
    const left = await follower.ended;
    expect(left.code).toBe(130);
    expect(left.stderr).toContain(`cancel ${runId}`);
    expect(typesOf(await desk.journal(runId))).not.toContain('run.cancelled');

    const [cancelled, ended] = await Promise.all([desk.run(['cancel', runId]), started.ended]);
    expect([cancelled.code, ended.code]).toEqual([0, 1]);
    expect(ended.stdout).toContain('"type":"run.cancelled"');
  });

  test('is paused by another command', async () => {
    const desk = new Desk([calling('crawl'), done]);
    const { started, runId } = await startedTool(desk);
    expect((await desk.run(['pause', runId])).code).toBe(0);
    started.child.kill('SIGKILL');
    await started.ended;
    const resumed = await desk.run(['resume', runId]);
    expect(resumed.code).toBe(3);
    expect(resumed.stdout).toContain('The run is paused.');
  });
});

describe.concurrent('a run whose process was killed', () => {
  test('is resumed immediately, without waiting for its lease to expire, and its call is not lost', async () => {
    const desk = new Desk([calling('crawl'), done]);
    const { started, runId } = await startedTool(desk);
    started.child.kill('SIGKILL');
    await started.ended;
    const leaseUntil = await extendLease(desk, runId, 3_600_000);
    const shown = await desk.run(['show', runId]);
    expect(shown.stdout).toContain('is gone); resume the run');
    const resumed = await desk.run(['resume', runId, '--json']);
    expect(resumed.code).toBe(0);
    const journal = await desk.journal(runId);
    const claims = journal.filter(({ type }) => type === 'run.claimed');
    expect(claims).toHaveLength(2);
    expect(claims[1]?.at).toBeLessThan(leaseUntil);
    const starts = journal.filter(event => event.type === 'tool.started');
    expect(starts).toHaveLength(2);
    expect(new Set(starts.map(({ key }) => key)).size).toBe(1);
  });

  test('is cancelled and paused without being driven', async () => {
    const desk = new Desk([calling('crawl'), done]);
    const { started, runId } = await startedTool(desk);
    started.child.kill('SIGKILL');
    await started.ended;
    expect((await desk.run(['pause', runId])).code).toBe(0);
    expect((await desk.run(['cancel', runId])).code).toBe(0);
    const types = typesOf(await desk.journal(runId));
    expect(types.slice(-2)).toEqual(['pause.requested', 'run.cancelled']);
    expect(types.filter(type => type === 'run.claimed')).toHaveLength(1);
  });
});

describe.concurrent('a waiting run', () => {
  test('is paused, stepped and unpaused', async () => {
    const desk = new Desk([calling(REFUND), calling(['lookup', { orderId: 'A-1' }]), done]);
    const { runId } = await desk.begin();
    const paused = await desk.run(['pause', runId, '--json']);
    expect(paused.code).toBe(0);
    expect(typesOf(eventsOf(paused.stdout))).toEqual(['pause.requested']);
    expect((await desk.run(['pause', runId])).code).toBe(4);

    const approved = await desk.run(['approve', runId, 'call_0_0', '--json']);
    expect(approved.code).toBe(3);
    expect(approved.stderr).toContain('The run is paused.');
    expect(typesOf(eventsOf(approved.stdout))).toEqual(['approval.decided']);

    const stepped = await desk.run(['step', runId, '--json']);
    expect(stepped.code).toBe(3);
    expect(typesOf(eventsOf(stepped.stdout)).at(-1)).toBe('tool.settled');

    const resumed = await desk.run(['unpause', runId]);
    expect(resumed.code).toBe(0);
    expect(resumed.stdout).toContain('Done.');
  });

  test('can be shown, paused and cancelled without its agent, but not driven', async () => {
    const desk = new Desk([calling(REFUND), done]);
    desk.write('agent.mjs', `export { default } from ${JSON.stringify(AGENT)};`);
    const begun = await desk.run(['run', '--agent', 'agent.mjs', '--json', 'go'], desk.model);
    const runId = eventsOf(begun.stdout)[0]?.runId ?? '';
    desk.write('agent.mjs', 'export default 1');
    expect((await desk.run(['show', runId])).code).toBe(0);
    const driven = await desk.runAlone(['approve', runId, 'call_0_0']);
    expect(driven.code).toBe(2);
    expect(driven.stderr).toContain('Cannot use agent module agent.mjs: ');
    expect((await desk.run(['pause', runId])).code).toBe(0);
    const cancelled = await desk.run(['cancel', runId, '--reason', 'enough', '--by', 'ada']);
    expect(cancelled.code).toBe(0);
    expect((await desk.journal(runId)).at(-1)).toMatchObject({
      type: 'run.cancelled',
      reason: 'enough',
      by: 'ada',
      unsettled: ['call_0_0'],
    });
    expect((await desk.run(['show', runId])).stdout).toContain('cancelled — on request');
    const again = await desk.run(['cancel', runId]);
    expect(again.code).toBe(4);
    expect((await desk.run(['resume', runId])).code).toBe(1);
  });
});

describe.concurrent('a run that has ended', () => {
  test('rejects messages; a new run continues it with its transcript and agent', async () => {
    const desk = new Desk([done, { text: 'And more.' }]);
    const first = await desk.begin();
    const sent = await desk.run(['send', first.runId, 'more']);
    expect(sent.code).toBe(4);
    expect(sent.stderr).toContain(`run --continues ${first.runId} TEXT`);
    const second = await desk.run(['run', '--continues', first.runId, '--json', 'more']);
    expect(second.code).toBe(0);
    const [started] = eventsOf(second.stdout);
    expect(started).toMatchObject({
      continues: first.runId,
      agent: { name: 'desk' },
      launch: { module: AGENT },
    });
    expect(second.stdout).toContain('And more.');
    expect((await desk.run(['resume', first.runId])).stdout).toContain('Done.');
  });
});
