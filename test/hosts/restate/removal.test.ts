import { afterEach, beforeEach, expect, it } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { type Agent, createAgent, type Run } from '../../../agent/index.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import { calls, makeTool } from '../../support/engine/agents.ts';
import { hostedOn, serveOn } from '../../support/restate/hosted.ts';
import { RestateStandIn } from '../../support/restate/restate-stand-in.ts';

const SECRET = 'my number is 4711';
let restate: RestateStandIn;

beforeEach(() => {
  restate = new RestateStandIn();
});
afterEach(() => {
  expect(restate.faults).toEqual([]);
});

const payer = () =>
  createAgent({
    name: 'payer',
    model: scripted([calls('pay'), { text: 'Paid.' }]),
    tools: [makeTool('pay', { approval: true })],
  });
const parent = () =>
  createAgent({
    name: 'parent',
    model: scripted([calls(['delegate', { input: 'pay' }]), { text: 'Done.' }]),
    tools: [payer().asTool({ name: 'delegate', description: 'Pays.' })],
  });

/** Starts a run that waits for a decision. */
async function wait(make: () => Agent, options: object = {}): Promise<{ agent: Agent; run: Run }> {
  serveOn(restate, [make()]);
  const agent = hostedOn(restate, make());
  const run = await agent.start(SECRET, options);
  expect((await run.settled()).status).toBe('waiting');
  const { runs } = await agent.store.list();
  for (const { runId } of runs)
    await expect.poll(async () => (await agent.store.get(runId))?.owner).toBe(undefined);
  return { agent, run };
}

it('deletes a run with its child runs, and leaves two numbers of each', async () => {
  const { agent, run } = await wait(parent);
  const { runs } = await agent.store.list({ parent: run.id });
  const ids = [run.id, ...runs.map(({ runId }) => runId)];
  expect(ids).toHaveLength(2);
  expect(await agent.store.delete(run.id)).toEqual(ids);
  for (const id of ids) expect([...restate.stateOf(id).keys()]).toEqual(['tombstone']);
  expect((await agent.store.list()).runs).toEqual([]);
  await expect(run.settled()).rejects.toMatchObject({ code: 'run-unknown' });
  await expect(run.approve('call_0_0')).rejects.toMatchObject({ code: 'run-unknown' });
});

it.each([1, 2, 3, 4])('deletes all or nothing, with a crash after every step number %i', async every => {
  let [steps, isOn] = [0, false];
  restate = new RestateStandIn({
    crashes: () => {
      steps += 1;
      return isOn && steps % (every + 1) === 0;
    },
  });
  const { agent, run } = await wait(parent);
  isOn = true;
  expect(await agent.store.delete(run.id)).toHaveLength(2);
  isOn = false;
  expect(restate.crashed).toBeGreaterThan(0);
  expect((await agent.store.list()).runs).toEqual([]);
});

it('refuses to delete, prune and redact a run that a worker drives', async () => {
  const begun = Promise.withResolvers<void>();
  const end = Promise.withResolvers<string>();
  const run = () => {
    begun.resolve();
    return end.promise;
  };
  const make = () =>
    createAgent({
      name: 'busy',
      model: scripted([calls('pay'), { text: 'Done.' }]),
      tools: [makeTool('pay', { run })],
    });
  serveOn(restate, [make()]);
  const agent = hostedOn(restate, make());
  const busy = await agent.start(SECRET);
  await begun.promise;
  await expect(agent.store.delete(busy.id)).rejects.toMatchObject({ code: 'refused' });
  const paths = ['/1/input/0/content/0/text'];
  const isDead = () => false;
  await expect(agent.store.redact(busy.id, { paths, isDead })).rejects.toMatchObject({ code: 'refused' });
  expect(await agent.store.prune({ before: Date.now() + 1 })).toEqual([]);
  end.resolve('paid');
  expect((await busy.settled()).status).toBe('finished');
  await expect.poll(() => agent.store.prune({ before: Date.now() + 1 })).toEqual([busy.id]);
  expect((await agent.store.list()).runs).toEqual([]);
});

it('keeps what was meant for a deleted run from a later run with its id', async () => {
  const { agent, run } = await wait(payer, { runId: 'again' });
  const { record, deliveries } = (await restate.calls().run('again', 'get', undefined)) ?? {};
  await agent.store.delete(run.id);
  const second = (await wait(payer, { runId: 'again' })).run;
  const before = await second.source.store.read('again');
  const meta = await restate.calls().run('again', 'get', undefined);
  expect(meta?.deliveries).toBeGreaterThan(deliveries ?? 0);
  expect(meta?.record.epoch).toBeGreaterThan(record?.epoch ?? 0);
  const report = {
    after: before.length,
    redactions: 0,
    events: [],
    at: 1,
    standing: { status: 'finished' },
  } as const;
  const late = await restate.calls().run('again', 'append', { ...report, epoch: record?.epoch ?? 0 });
  expect(late).toEqual({ type: 'superseded' });
  await restate.calls().run('again', 'left', { delivery: deliveries ?? 0 });
  expect(await second.source.store.read('again')).toEqual(before);
});

it('redacts a text everywhere in the object of the run; the journal still replays', async () => {
  const { agent, run } = await wait(payer);
  const paths = ['/1/input/0/content/0/text'];
  expect(await agent.store.redact(run.id, { paths, by: 'ann' })).toEqual({
    runId: run.id,
    values: 1,
    elsewhere: [],
  });
  expect([...restate.stateOf(run.id).values()].join()).not.toContain(SECRET);
  expect((await agent.store.get(run.id))?.title).not.toContain(SECRET);
  await run.approve('call_0_0');
  expect((await run.settled()).status).toBe('finished');
  expect(await replayRun(agent.store, run.id)).toMatchObject({ equal: true });
});
