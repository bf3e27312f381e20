import { expect, test } from 'vitest';
import { beginFold } from '../../../engine/journal/load-run.ts';
import { RunLog } from '../../../engine/log/run-log.ts';
import { chartIdentity } from '../../../machines/snapshot.ts';
import type { ReportEvent, RunEvent } from '../../../protocol/event.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { eventsOf, makeGate } from '../../support/engine/agents.ts';
import { watchStore } from '../../support/engine/watched-store.ts';
import {
  answering,
  calling,
  makeCall,
  makeConfig,
  makeStarted,
  START,
  saying,
  starting,
} from '../../support/machines/builders.ts';

/** A run that this process drives, in a store that holds up appends until `appending` opens. */
async function makeLog(appending: Promise<void> = Promise.resolve()) {
  const store = watchStore(memory(), {
    beforeAppend: (_, [first]) => (isStart(first) ? undefined : appending),
  });
  const host = new ManualHost();
  const started = { ...makeStarted(makeConfig()), chart: chartIdentity() };
  const owner = { id: 'driver', host: 'here', pid: 1, startedAt: '' };
  const claim = { owner, now: host.now(), leaseMs: 10_000, isDead: () => false };
  const { epoch, seq } = await store.create(started, claim);
  const fold = { state: beginFold(started), seq, redactions: 0 };
  const log = new RunLog({ store, host }, started.runId, fold);
  log.startDriving(epoch);
  const stamp = () => ({ at: host.now(), generation: log.state.context.generation });
  const types = async () => (await eventsOf(store, started.runId)).slice(2).map(({ type }) => type);
  return { log, store, stamp, types };
}

const isStart = (event: RunEvent | undefined) => event?.type === 'run.started';

test('J7: what is reported after an append and not committed when driving stops is never appended', async () => {
  const { log, stamp, types } = await makeLog();
  expect(log.report([{ type: 'text.started', ...stamp() }])).not.toBeNull();
  await log.commit();
  expect(log.report([{ ...answering('done'), ...stamp() }])).not.toBeNull();
  log.stopDriving();
  await log.commit();
  expect(log.isDurable).toBe(true);
  expect(await types()).toEqual(['text.started']);
});

test('J6: of several reports those that fit are appended, also after an entry of another process', async () => {
  const { log, store, stamp, types } = await makeLog();
  log.report([{ ...calling(makeCall('a'), makeCall('b')), ...stamp() }]);
  await log.commit();
  const start = (callId: string) => ({ ...starting(callId), ...stamp() }) as ReportEvent;
  const [first, other, second] = [start('a'), start('unknown'), start('b')];
  expect(log.report([first, other, second])?.refused).toEqual([other]);
  expect(log.state.context.calls.map(({ status }) => status)).toEqual(['running', 'running']);
  const { seq: after } = log.durable;
  const said = { ...saying('Also this.'), at: START } as RunEvent;
  await store.append(log.runId, { after, input: true }, [said], { status: 'running' });
  await log.commit();
  expect(await types()).toEqual(['turn.completed', 'message.received', 'tool.started', 'tool.started']);
  expect(log.state.context.calls.map(({ status }) => status)).toEqual(['running', 'running']);
});

test('J4: an append has what was pending when it began, and leaves what is reported meanwhile', async () => {
  const appending = makeGate<void>();
  const { log, stamp, types } = await makeLog(appending.promise);
  log.report([{ type: 'text.started', ...stamp() }]);
  const committed = log.commit();
  await Promise.resolve();
  log.report([{ ...answering('done'), ...stamp() }]);
  appending.open();
  await committed;
  expect(log.isDurable).toBe(false);
  expect(await types()).toEqual(['text.started']);
  await log.commit();
  expect(await types()).toEqual(['text.started', 'turn.completed']);
});
