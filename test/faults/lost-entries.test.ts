import { describe, expect, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { JournalEntry, RunStarted } from '../../protocol/event.ts';
import type { Store } from '../../protocol/store.ts';
import { memory } from '../../stores/memory.ts';
import { ManualHost } from '../../testing/manual-host.ts';
import { calls, makeTool, makeTracedTool } from '../support/engine/agents.ts';
import { fail } from '../support/stores/make-journal.ts';

/** A store that is replaced during use, like a file overwritten by an older copy. */
function makeReplaceable(): { store: Store; loseFrom(seq: number): Promise<void> } {
  let current = memory();
  const store = new Proxy(current, {
    get: (_, name) => {
      const member: unknown = Reflect.get(current, name);
      return typeof member === 'function' ? member.bind(current) : member;
    },
  });
  const loseFrom = async (seq: number) => {
    const [first, ...rest] = (await current.read(RUN)).filter(entry => entry.seq < seq);
    const older = memory();
    await older.create(startOf(first), undefined, {
      events: rest.map(({ event }) => event),
      status: 'running',
    });
    current = older;
  };
  return { store, loseFrom };
}

function startOf(entry: JournalEntry | undefined): RunStarted {
  if (entry?.event.type !== 'run.started') throw new Error('it does not begin with its start');
  return entry.event;
}

const RUN = 'run_lost';

function makeAgent(host: ManualHost, store: Store, keys: string[], lose = async () => {}) {
  return createAgent({
    name: 'a',
    host,
    store,
    model: scripted([calls('lose', 'pay'), calls('refund'), { text: 'done' }]),
    toolConcurrency: 1,
    tools: [
      makeTool('lose', { sideEffect: 'none', run: lose }),
      makeTracedTool('pay', keys),
      makeTracedTool('refund', keys, { approval: true }),
    ],
  });
}

test('a journal that is shorter than its snapshot is refused with the run and the first lost entry', async () => {
  const store = memory();
  const host = new ManualHost();
  const agent = makeAgent(host, store, []);
  const run = await agent.start('go', { runId: RUN });
  await host.settle(run.settled());
  const { seq = 0 } = (await store.get(RUN)) ?? {};
  const { image } = Object(run.snapshot());
  await store.saveSnapshot(RUN, { seq: seq + 2, state: image });
  // Another process, which has not driven the run.
  const elsewhere = makeAgent(host, { ...store }, []);
  const error = await fail(elsewhere.open(RUN));
  expect(error).toMatchObject({ code: 'journal-damaged', details: { runId: RUN, seq: seq + 1 } });
});

describe('a store that loses entries during use', () => {
  test('is detected by a decision: the error names run and first lost entry, nothing is written, nothing hangs', async () => {
    const { store, loseFrom } = makeReplaceable();
    const host = new ManualHost();
    const keys: string[] = [];
    const run = await makeAgent(host, store, keys).start('go', { runId: RUN });
    expect((await host.settle(run.settled())).status).toBe('waiting');
    const original = await store.read(RUN);
    await loseFrom(6);
    const error = await fail(host.settle(run.approve('call_1_0')));
    expect(error).toMatchObject({ code: 'journal-damaged', details: { runId: RUN, seq: 6 } });
    expect(error.message).toContain(RUN);
    expect(await store.read(RUN)).toEqual(original.slice(0, 5));
    expect(keys).toHaveLength(1);
  });

  test('is detected by the driver before the next tool call', async () => {
    const { store, loseFrom } = makeReplaceable();
    const host = new ManualHost();
    const keys: string[] = [];
    const agent = makeAgent(host, store, keys, () => loseFrom(3));
    const run = await agent.start('go', { runId: RUN });
    const error = await fail(host.settle(run.settled()));
    expect(error).toMatchObject({ code: 'journal-damaged', details: { runId: RUN } });
    expect(keys).toEqual([]);
  });

  test('is detected on resume, although the store has newer claims', async () => {
    const { store, loseFrom } = makeReplaceable();
    const host = new ManualHost();
    const keys: string[] = [];
    const run = await makeAgent(host, store, keys).start('go', { runId: RUN });
    expect((await host.settle(run.settled())).status).toBe('waiting');
    await loseFrom(4);
    const error = await fail(host.settle(run.resume()));
    expect(error).toMatchObject({ code: 'journal-damaged', details: { runId: RUN } });
    expect(keys).toHaveLength(1);
  });
});
