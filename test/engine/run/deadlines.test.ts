import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { calls, clientTool, eventsOf, makeTracedTool, wordsOf } from '../../support/engine/agents.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function makeExpiring(host: ManualHost, store: Store, keys: string[] = []) {
  return createAgent({
    name: 'a',
    host,
    store,
    model: scripted([calls('soon', 'later'), { text: 'done' }]),
    tools: [
      makeTracedTool('soon', keys, { approval: { required: true, expiresInMs: HOUR } }),
      makeTracedTool('later', keys, { approval: { required: true, expiresInMs: 2 * HOUR } }),
    ],
  });
}

describe('E6: deadlines', () => {
  test('each approval expires at its own time while the process holds the run', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await makeExpiring(host, store).start('go');
    const open = async () => {
      const settled = await run.settled();
      return settled.status === 'waiting' ? settled.approvals.map(({ callId }) => callId) : settled.status;
    };
    expect(await open()).toEqual(['call_0_0', 'call_0_1']);
    await host.advance(HOUR - 1);
    expect(await open()).toEqual(['call_0_0', 'call_0_1']);
    await host.advance(1);
    expect(await wordsOf(store, run.id)).toContain('timer.fired');
    expect(await open()).toEqual(['call_0_1']);
    await host.advance(HOUR);
    expect(await open()).toBe('finished');
  });

  test('approvals that expired during a day of sleep are expired when another process opens the run', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await makeExpiring(host, store).start('go');
    await run.settled();
    const keys: string[] = [];
    const later = new ManualHost({ now: host.now() + DAY, name: 'b' });
    const opened = await makeExpiring(later, store, keys).open(run.id);
    expect(await later.settle(opened.settled())).toMatchObject({ status: 'finished', text: 'done' });
    expect(keys).toEqual([]);
  });

  test('a process that slept past a deadline handles it on waking, although no timer fired in time', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const run = await makeExpiring(host, store).start('go');
    await run.settled();
    host.jump(DAY);
    await host.advance(0);
    expect((await host.settle(run.settled())).status).toBe('finished');
  });

  test('a decision after the deadline is refused as expired, even before the expiry is journaled', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const keys: string[] = [];
    const run = await makeExpiring(host, store, keys).start('go');
    await run.settled();
    host.jump(HOUR);
    expect(await run.approve('call_0_0')).toMatchObject({ accepted: false, code: 'expired' });
    expect(await run.approve('call_0_1')).toEqual({ accepted: true });
    await host.settle(run.settled());
    expect(keys).toEqual([`${run.id}:1:call_0_1`]);
  });

  test('a decision in time is accepted, even if its tool runs after the deadline', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const keys: string[] = [];
    const run = await makeExpiring(host, store, keys).start('go');
    await run.settled();
    await host.advance(HOUR - 1);
    expect(await run.approve('call_0_0')).toEqual({ accepted: true });
    expect(await run.approve('call_0_1')).toEqual({ accepted: true });
    expect((await host.settle(run.settled())).status).toBe('finished');
    expect(keys).toHaveLength(2);
  });

  test('the wait before a retry ends at the same time in another process', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const error = { code: 'rate-limit', retryAfterMs: HOUR } as const;
    const model = () => scripted([{ error: { ...error, times: 1 } }, { text: 'done' }]);
    const first = await createAgent({ name: 'a', host, store, model: model() }).start('go');
    await host.advance(5_000);
    const due = host.now() - 5_000 + HOUR;
    expect(await wordsOf(store, first.id)).toContain('turn.failed');

    const asleep = new ManualHost({ now: due - 60_000, name: 'b' });
    const answering = createAgent({ name: 'a', host: asleep, store, model: scripted([{ text: 'done' }]) });
    const second = await answering.open(first.id);
    const settled = second.settled();
    await asleep.advance(59_000);
    expect(await wordsOf(store, first.id)).not.toContain('timer.fired');
    expect((await asleep.settle(settled)).status).toBe('finished');
    const fired = (await eventsOf(store, first.id)).find(({ type }) => type === 'timer.fired');
    expect(fired?.at).toBe(due);
  });

  test('a run that waits only for client results sets no timer', async () => {
    const [host, store] = [new ManualHost(), memory()];
    const agent = createAgent({
      name: 'a',
      host,
      store,
      model: scripted([calls('show'), { text: 'done' }]),
      tools: [clientTool('show')],
    });
    const run = await agent.start('go');
    await run.settled();
    const before = await wordsOf(store, run.id);
    await host.advance(DAY);
    expect(await wordsOf(store, run.id)).toEqual(before);
  });
});
