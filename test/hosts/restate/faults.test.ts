import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, type Run, type Settled } from '../../../agent/index.ts';
import { resumeRun } from '../../../hosts/restate/followed-run.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Tool } from '../../../protocol/tool.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { hostedOn, serveOn } from '../../support/restate/hosted.ts';
import { RestateStandIn } from '../../support/restate/restate-stand-in.ts';

let restate: RestateStandIn;

beforeEach(() => {
  restate = new RestateStandIn();
});
afterEach(() => {
  expect(restate.faults).toEqual([]);
});

function agentOf(tool: Tool, name = 'hosted'): Agent {
  return createAgent({ name, model: scripted([calls('pay'), { text: 'Done.' }]), tools: [tool] });
}

/** A tool that ends when the test says so. `begun` resolves when its function is called. */
function heldTool(options: object = {}) {
  const begun = Promise.withResolvers<void>();
  const end = Promise.withResolvers<string>();
  const counted = { begun: 0 };
  const run = async () => {
    counted.begun += 1;
    begun.resolve();
    return await end.promise;
  };
  return { tool: makeTool('pay', { run, ...options }), begun: begun.promise, end: end.resolve, counted };
}

async function eventsOf(run: Run): Promise<RunEvent[]> {
  return (await run.source.store.read(run.id)).map(({ event }) => event);
}

function waitingOf(settled: Settled): Extract<Settled, { status: 'waiting' }> {
  if (settled.status !== 'waiting') throw new Error(`the run is ${settled.status}`);
  return settled;
}

describe('a worker that dies', () => {
  it('in a once tool leaves the call in doubt; it begins again only when a person says so (E3)', async () => {
    const first = heldTool();
    serveOn(restate, [agentOf(first.tool)]);
    const run = await hostedOn(restate, agentOf(first.tool)).start('Pay.');
    await first.begun;
    expect((await eventsOf(run)).map(({ type }) => type)).toContain('tool.started');
    const second = heldTool();
    serveOn(restate, [agentOf(second.tool)]);
    const { doubts } = waitingOf(await run.settled());
    expect(doubts).toHaveLength(1);
    expect([first.counted.begun, second.counted.begun]).toEqual([1, 0]);
    second.end('paid');
    await run.resolve(doubts[0] ?? '', { retry: true, force: true });
    expect((await run.settled()).status).toBe('finished');
    expect([first.counted.begun, second.counted.begun]).toEqual([1, 1]);
    const claims = (await eventsOf(run)).filter(({ type }) => type === 'run.claimed');
    expect(claims.map(claim => 'epoch' in claim && claim.epoch)).toEqual([1, 2, 3]);
  });

  it('in an idempotent tool has it run again under the same key', async () => {
    const keys: string[] = [];
    const first = heldTool({ sideEffect: 'idempotent' });
    serveOn(restate, [agentOf(first.tool)]);
    const run = await hostedOn(restate, agentOf(first.tool)).start('Pay.');
    await first.begun;
    const again = makeTool('pay', {
      sideEffect: 'idempotent',
      run: (_: unknown, { key }: { key: string }) => keys.push(key),
    });
    serveOn(restate, [agentOf(again)]);
    expect((await run.settled()).status).toBe('finished');
    const starts = (await eventsOf(run)).filter(event => event.type === 'tool.started');
    expect(starts.map(start => 'key' in start && start.key)).toEqual([keys[0], keys[0]]);
  });

  it('while a run waits changes nothing', async () => {
    const tool = () => makeTool('pay', { approval: true });
    serveOn(restate, [agentOf(tool())]);
    const run = await hostedOn(restate, agentOf(tool())).start('Pay.');
    const { approvals } = waitingOf(await run.settled());
    const before = await eventsOf(run);
    serveOn(restate, [agentOf(tool())]);
    expect(await eventsOf(run)).toEqual(before);
    await run.approve(approvals[0] ?? '');
    expect((await run.settled()).status).toBe('finished');
  });
});

describe('fences', () => {
  it('refuse the reports of an older epoch, and claims for a delivery that is over (E4)', async () => {
    const held = heldTool();
    serveOn(restate, [agentOf(held.tool)]);
    const run = await hostedOn(restate, agentOf(held.tool)).start('Pay.');
    await held.begun;
    const calls = restate.calls();
    const owner = { id: 'zombie', host: 'h', pid: 1, startedAt: '' };
    const meta = await calls.run(run.id, 'get', undefined);
    const { working, record } = meta ?? { working: 0, record: { seq: 0 } };
    expect(
      await calls.run(run.id, 'claim', { delivery: 7, owner, now: 1, unlessEnded: false }),
    ).toMatchObject({ type: 'held' });
    // Restate delivers the same work to another process.
    const claimed = await calls.run(run.id, 'claim', {
      delivery: working ?? 0,
      owner,
      now: 1,
      unlessEnded: false,
    });
    expect(claimed).toEqual({ type: 'claimed', epoch: 2, seq: record.seq + 1 });
    const report = {
      after: record.seq + 1,
      redactions: 0,
      events: [],
      at: 1,
      standing: { status: 'finished' },
    } as const;
    expect(await calls.run(run.id, 'append', { ...report, epoch: 1 })).toEqual({ type: 'superseded' });
    held.end('paid');
    await expect.poll(async () => (await eventsOf(run)).map(({ type }) => type)).toContain('tool.late');
    expect((await eventsOf(run)).filter(({ type }) => type === 'tool.settled')).toEqual([]);
  });

  it('let a resume replace a delivery only if it was killed in Restate, and never have two drive (E4)', async () => {
    const held = heldTool();
    serveOn(restate, [agentOf(held.tool)]);
    const run = await hostedOn(restate, agentOf(held.tool)).start('Pay.');
    await held.begun;
    const calls = restate.calls();
    const working = async () => (await calls.run(run.id, 'get', undefined))?.working;
    await resumeRun(calls, run.id);
    expect(await working()).toBe(1);
    restate.deliveries = [];
    await resumeRun(calls, run.id);
    expect(await working()).toBe(2);
    // The worker is still at work on the killed delivery, which may not claim any more; a claim of the next fences it.
    const owner = { id: 'another', host: 'h', pid: 1, startedAt: '' };
    const claim = { owner, now: 1, unlessEnded: false };
    expect(await calls.run(run.id, 'claim', { ...claim, delivery: 1 })).toMatchObject({ type: 'held' });
    expect(await calls.run(run.id, 'claim', { ...claim, delivery: 2 })).toMatchObject({ epoch: 2 });
    held.end('paid');
    await expect.poll(async () => (await eventsOf(run)).map(({ type }) => type)).toContain('tool.late');
    expect((await eventsOf(run)).filter(({ type }) => type === 'tool.settled')).toEqual([]);
    expect(waitingOf(await run.settled()).doubts).toHaveLength(1);
    expect(held.counted.begun).toBe(1);
  });

  it('let the worker that was at work on a killed delivery finish it before it takes the next', async () => {
    const held = heldTool();
    serveOn(restate, [agentOf(held.tool)]);
    const run = await hostedOn(restate, agentOf(held.tool)).start('Pay.');
    await held.begun;
    restate.deliveries = [];
    await resumeRun(restate.calls(), run.id);
    // In memory, a second driver would have claimed the run within these turns of the event loop.
    for (let turn = 0; turn < 100; turn += 1) await new Promise(resolve => setImmediate(resolve));
    expect(restate.invoked.get('drive')).toBe(2);
    expect((await eventsOf(run)).filter(({ type }) => type === 'run.claimed')).toHaveLength(1);
    held.end('paid');
    expect((await run.settled()).status).toBe('finished');
    expect(held.counted.begun).toBe(1);
    expect((await eventsOf(run)).map(({ type }) => type)).not.toContain('tool.late');
  });

  it('let a decision count once, and tell the second who decided (E5)', async () => {
    const tool = () => makeTool('pay', { approval: true });
    serveOn(restate, [agentOf(tool())]);
    const hosted = hostedOn(restate, agentOf(tool()));
    const run = await hosted.start('Pay.');
    const other = await hostedOn(restate, agentOf(tool())).open(run.id);
    const [call] = waitingOf(await run.settled()).approvals;
    const answers = await Promise.all([
      run.approve(call ?? '', { by: 'ann' }),
      other.reject(call ?? '', { by: 'bob' }),
    ]);
    expect(answers.filter(({ accepted }) => accepted)).toHaveLength(1);
    expect(answers.find(({ accepted }) => !accepted)).toMatchObject({ code: 'already-decided' });
    const decisions = (await eventsOf(run)).filter(({ type }) => type === 'approval.decided');
    expect(decisions).toHaveLength(1);
  });

  it('make a delivery that is repeated in one process join the work under way', async () => {
    const held = heldTool();
    const starts: Promise<unknown>[] = [];
    const { Deliveries } = await import('../../../hosts/restate/drive-run.ts');
    const { makeRestateServices: makeServices } = await import('../../../hosts/restate/services.ts');
    restate.serve(own => {
      const deliveries = new Deliveries([agentOf(held.tool)], own);
      const drive = deliveries.drive.bind(deliveries);
      deliveries.drive = async delivery => {
        starts.push(drive(delivery), drive(delivery));
        return (await Promise.all(starts.slice(-2)))[1] as null;
      };
      return makeServices(deliveries);
    });
    const run = await hostedOn(restate, agentOf(held.tool)).start('Pay.');
    await held.begun;
    held.end('paid');
    expect((await run.settled()).status).toBe('finished');
    expect(starts).toHaveLength(2);
    expect(held.counted.begun).toBe(1);
  });
});

describe('inputs to a run that a worker drives', () => {
  it('are reported to its driver, which does not repeat the question', async () => {
    const begun = Promise.withResolvers<void>();
    const run = async (_: unknown, { signal }: { signal: AbortSignal }) => {
      begun.resolve();
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    const tool = () => makeTool('pay', { sideEffect: 'none', run });
    serveOn(restate, [agentOf(tool())]);
    const hosted = await hostedOn(restate, agentOf(tool())).start('Pay.');
    await begun.promise;
    await new Promise(resolve => setTimeout(resolve, 500));
    const reads = restate.invoked.get('read') ?? 0;
    await new Promise(resolve => setTimeout(resolve, 500));
    expect((restate.invoked.get('read') ?? 0) - reads).toBeLessThan(2);
    const told = restate.invoked.get('watch') ?? 0;
    expect(told).toBeGreaterThan(0);
    await hosted.cancel();
    expect((await hosted.settled()).status).toBe('cancelled');
  });
});

describe('deadlines', () => {
  it('wake a run that no process holds (E6)', async () => {
    const approval = () => ({ required: true, expiresInMs: 60 });
    const tool = () => makeTool('pay', { approval });
    serveOn(restate, [agentOf(tool())]);
    const run = await hostedOn(restate, agentOf(tool())).start('Pay.');
    // Waiting for a decision, or finished: on a busy machine the deadline may have passed.
    await run.settled();
    serveOn(restate, [agentOf(tool())]);
    await expect.poll(async () => (await run.settled()).status).toBe('finished');
    expect(await run.approve('call_0_0')).toMatchObject({ accepted: false, code: 'expired' });
  });
});

describe('what a retry cannot fix', () => {
  const tool = () => makeTool('pay', { approval: true });

  it('quarantines a run whose agent no worker serves, until it is unpaused', async () => {
    serveOn(restate, [agentOf(tool(), 'another')]);
    const run = await hostedOn(restate, agentOf(tool())).start('Pay.');
    const held = waitingOf(await run.settled());
    expect(held).toMatchObject({ paused: true });
    expect(held.open).toMatchObject([
      { kind: 'pause', reason: expect.stringContaining('serves no agent "hosted"') },
    ]);
    const drives = restate.invoked.get('drive');
    serveOn(restate, [agentOf(tool())]);
    await run.unpause();
    expect(waitingOf(await run.settled()).approvals).toHaveLength(1);
    expect(restate.invoked.get('drive')).toBe((drives ?? 0) + 1);
  });

  it.each([
    ['damaged', '{"event":{"type":"nonsense"}}', 'journal-damaged'],
    ['of another chart', undefined, 'chart-mismatch'],
  ])('quarantines a run whose journal is %s; resuming it tries again', async (_, entry, code) => {
    serveOn(restate, [agentOf(tool())]);
    const run = await hostedOn(restate, agentOf(tool())).start('Pay.');
    await run.settled();
    const state = restate.stateOf(run.id);
    const name = entry === undefined ? 'entry 1' : 'entry 3';
    const before = state.get(name) ?? '';
    state.set(
      name,
      entry ??
        before
          .replace(/"hash":"[0-9a-f]+"/, '"hash":"0"')
          .replace(/"version":\d+,"hash"/, '"version":1,"hash"'),
    );
    // Later processes: the first does not read again what it has read.
    serveOn(restate, [agentOf(tool())]);
    const hosted = hostedOn(restate, agentOf(tool()));
    await restate.calls().run(run.id, 'call', { reason: 'resumed' });
    await expect.poll(async () => (await hosted.store.get(run.id))?.state).toBe('quarantined');
    expect((await hosted.store.get(run.id))?.why).toContain(code);
    const drives = restate.invoked.get('drive');
    await expect(hosted.open(run.id)).rejects.toMatchObject({ code });
    expect(restate.invoked.get('drive')).toBe(drives);
    state.set(name, before);
    await restate.calls().run(run.id, 'call', { reason: 'resumed' });
    await expect.poll(async () => (await hosted.store.get(run.id))?.state).toBe('resting.awaitingApproval');
  });
});
