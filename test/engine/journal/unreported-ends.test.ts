import { describe, expect, test } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { makeTool, wordsOf } from '../../support/engine/agents.ts';
import { childOf, makeFamily, PAYING, settleWith } from '../../support/engine/family.ts';
import { watchStore } from '../../support/engine/watched-store.ts';

/** Another process opens only the sub-agent's run, approves its call and drives it to its end. */
async function endChild(store: Store, child: string) {
  const host = new ManualHost({ name: 'other_' });
  const researcher = createAgent({
    name: 'researcher',
    store,
    host,
    model: scripted(PAYING.childScript ?? []),
    tools: [makeTool('pay', { approval: true })],
  });
  const run = await researcher.open(child);
  await run.approve('call_0_0');
  expect(await host.settle(run.settled())).toMatchObject({ status: 'finished' });
  await host.idle();
}

describe('a sub-agent whose end was not reported to its parent', () => {
  test('is found by a process that opens only the parent', async () => {
    const store = memory();
    const host = new ManualHost();
    const { run } = await settleWith(makeFamily(PAYING, { store, host }), host);
    const silent = watchStore(store, {
      beforeAppend: runId => {
        if (runId === run.id) throw new Error('the process has ended');
      },
    });
    await endChild(silent, await childOf(store, run.id));
    expect(await store.get(run.id)).toMatchObject({ status: 'waiting' });
    const later = new ManualHost({ name: 'later_', now: host.now() });
    const opened = await makeFamily(PAYING, { store, host: later }).open(run.id);
    expect(await later.settle(opened.settled())).toMatchObject({ status: 'finished', text: 'told' });
  });

  test('is found by the parent when it ended before the parent waited for it', async () => {
    const store = memory();
    const host = new ManualHost();
    const late = watchStore(store, {
      async beforeAppend(runId, events) {
        if (events.some(({ type }) => type === 'tool.suspended'))
          await endChild(store, await childOf(store, runId));
      },
    });
    const run = await makeFamily(PAYING, { store: late, host }).start('go');
    await host.advance(1_000);
    expect(await wordsOf(store, run.id)).toContain('result.received call_0_0');
    expect(await store.get(run.id)).toMatchObject({ status: 'finished' });
  });

  test('is reported to its parent and to a fork of the parent', async () => {
    const store = memory();
    const host = new ManualHost();
    const agent = makeFamily(PAYING, { store, host });
    const { run } = await settleWith(agent, host);
    const { seq } = (await store.get(run.id)) ?? { seq: 0 };
    const fork = await run.fork({ at: seq });
    await endChild(store, (await firstChild(store, run.id)) ?? '');
    await host.advance(1_000);
    expect(await wordsOf(store, run.id)).toContain('result.received call_0_0');
    expect((await host.settle(fork.settled())).status).toBe('finished');
    expect(await wordsOf(store, fork.id)).toContain('result.received call_0_0');
  });
});

async function firstChild(store: Store, parentId: string): Promise<string | undefined> {
  for (const { event } of await store.read(parentId))
    if (event.type === 'tool.suspended') return event.childRunId;
  return undefined;
}
