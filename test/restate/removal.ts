import assert from 'node:assert/strict';
import { exportRun } from '../../engine/replay/export-run.ts';
import { replayRun } from '../../engine/replay/replay-run.ts';
import { RUN_OBJECT } from '../../hosts/restate/requests.ts';
import { readNotes } from '../../tools/notes/index.ts';
import { NOTED } from './agents.ts';
import { type Lab, until } from './lab.ts';
import { INPUT, type Scenarios, waitingOf } from './runs.ts';

/** Deleting, pruning and redacting. */
export const removal: Scenarios = {
  /** A waiting run is deleted with its child run. A run that is driven is not. Its id can be used again. */
  async deletion(lab) {
    const agent = lab.agent('parent');
    const runId = `deleted-${crypto.randomUUID()}`;
    const run = await agent.start('Was it paid? Pay.', { runId });
    const [call] = waitingOf(await run.settled()).approvals;
    const child = call?.runId ?? '';
    const { runs } = await agent.store.list({ parent: runId });
    const ids = [runId, ...runs.map(record => record.runId)];
    assert.ok(ids.includes(child));
    await untilFree(lab, ids);
    assert.deepEqual((await agent.store.delete(runId)).sort(), ids.sort());
    for (const id of ids) assert.deepEqual(await keysOf(lab, id), ['tombstone']);
    assert.equal(await agent.store.get(runId), undefined);
    assert.deepEqual((await agent.store.list({ parent: runId })).runs, []);
    await assert.rejects(run.settled(), { code: 'run-unknown' });

    await lab.startWorker({ TOOL_MS: '1500' });
    const busy = await lab.agent('paying').start(INPUT, { runId });
    await until(() => lab.begun(runId) === 1);
    await assert.rejects(agent.store.delete(runId), { code: 'refused' });
    assert.equal((await busy.settled()).status, 'finished');
    await untilFree(lab, [runId]);
    assert.deepEqual(await agent.store.delete(runId), [runId]);
    await lab.startWorker();
    return `${ids.length} runs deleted, the id used again`;
  },

  /** The caller is not needed once the object of the run has the request: the worker is killed meanwhile. */
  async 'deletion with the worker killed'(lab) {
    const agent = lab.agent('parent');
    const run = await agent.start('Was it paid? Pay.');
    waitingOf(await run.settled());
    const { runs } = await agent.store.list({ parent: run.id });
    await untilFree(lab, [run.id, ...runs.map(({ runId }) => runId)]);
    await lab.killWorker();
    const deleting = agent.store.delete(run.id);
    await lab.startWorker();
    const ids = await deleting;
    assert.equal(ids.length, 3);
    for (const id of ids) assert.deepEqual(await keysOf(lab, id), ['tombstone']);
    return 'all deleted';
  },

  /** Runs that ended before a time are deleted, by label. */
  async pruning(lab) {
    const agent = lab.agent('refunds');
    const labels = { batch: crypto.randomUUID() };
    const start = () => agent.start(INPUT, { labels });
    const [first, open] = [await start(), await start()];
    const [call] = waitingOf(await first.settled()).approvals;
    await first.reject(call ?? '');
    assert.equal((await first.settled()).status, 'finished');
    waitingOf(await open.settled());
    const before = Date.now() + 1;
    const { createdAt = 0 } = (await agent.store.get(first.id)) ?? {};
    assert.deepEqual(await agent.store.prune({ before: createdAt, labels }), []);
    assert.deepEqual(await agent.store.prune({ before, labels, dryRun: true }), [first.id]);
    await until(async () => (await agent.store.prune({ before, labels })).length === 1);
    assert.deepEqual(
      (await agent.store.list({ labels })).runs.map(({ runId }) => runId),
      [open.id],
    );
    return '1 of 2 deleted';
  },

  /** The notes of a user outlive their worker, are exported, and leave nothing once they are deleted. */
  async notes(lab) {
    const agent = lab.agent('noting');
    const labels = { user: crypto.randomUUID() };
    await lab.startWorker({ TOOL_MS: '2000' });
    const run = await agent.start(INPUT, { labels });
    await until(async () => (await readNotes(agent.store, labels)) !== undefined);
    await lab.killWorker();
    await lab.startWorker();
    const settled = await run.settled();
    assert.equal(settled.status, 'finished');
    assert.match(String(settled.status === 'finished' && settled.results.at(-1)?.output), /A-1001/);
    const { runId = '', files } = (await readNotes(agent.store, labels)) ?? {};
    assert.deepEqual(files, [{ path: '/memories/orders.md', bytes: NOTED.length, text: NOTED }]);
    assert.ok(JSON.stringify(await exportRun(agent.store, runId)).includes(NOTED));
    await untilFree(lab, [run.id]);
    for (const id of [run.id, runId]) {
      assert.deepEqual(await agent.store.delete(id), [id]);
      assert.deepEqual(await keysOf(lab, id), ['tombstone']);
    }
    assert.equal(await readNotes(agent.store, labels), undefined);
    return `${files?.length} note in ${runId}`;
  },

  /** A text is redacted: nothing that Restate's SQL shows of the run has it, and the journal still replays. */
  async redaction(lab) {
    const agent = lab.agent('refunds');
    const secret = `secret ${crypto.randomUUID()}`;
    const run = await agent.start(secret);
    const [call] = waitingOf(await run.settled()).approvals;
    assert.equal((await statesWith(lab, secret)) > 0, true);
    await untilFree(lab, [run.id]);
    const paths = ['/1/input/0/content/0/text'];
    const redacted = await agent.store.redact(run.id, { paths, by: 'ann' });
    assert.deepEqual(redacted, { runId: run.id, values: 1, elsewhere: [] });
    assert.equal(await statesWith(lab, secret), 0);
    const again = await agent.open(run.id);
    assert.deepEqual(await again.approve(call ?? ''), { accepted: true });
    assert.equal((await again.settled()).status, 'finished');
    assert.equal(await statesWith(lab, secret), 0);
    const { equal } = await replayRun(agent.store, run.id);
    assert.equal(equal, true);
    return 'redacted, finished and replayed';
  },
};

/** A run rests in its journal a moment before its worker gives it up. */
async function untilFree(lab: Lab, runIds: readonly string[]): Promise<void> {
  for (const runId of runIds) await until(async () => !(await lab.isDelivered(runId)));
}

async function keysOf(lab: Lab, runId: string): Promise<unknown[]> {
  const rows = await lab.query(
    `select key from state where service_name = '${RUN_OBJECT}' and service_key = '${runId}'`,
  );
  return rows.map(({ key }) => key);
}

/** How many values in the states of all objects have a text. */
async function statesWith(lab: Lab, text: string): Promise<number> {
  const [row] = await lab.query(`select count(*) as found from state where value_utf8 like '%${text}%'`);
  return Number(row?.found);
}
