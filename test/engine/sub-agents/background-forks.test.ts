import { describe, expect, test, vi } from 'vitest';
import { scripted } from '../../../adapters/scripted.ts';
import { createAgent } from '../../../agent/agent.ts';
import { replayRun } from '../../../engine/replay/replay-run.ts';
import type { Run } from '../../../engine/run/run.ts';
import { isAnswer } from '../../../machines/decide-next-action.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import type { Item, MessageItem } from '../../../protocol/item.ts';
import { textOf } from '../../../protocol/message.ts';
import type { Store } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { calls, countEvents, makeGate, makeTool } from '../../support/engine/agents.ts';

const SENT = 'The background work of call call_0_0 (ship) has ended. The tool returned:\n{"sent":1}';
const FOUND = 'The background work of call call_0_1 (research) has ended. The tool returned:\nFound it.';

/** A run that has begun work of both kinds, which `sent` lets end. */
async function beginWork() {
  const store = memory();
  const sent = makeGate();
  const reached: string[] = [];
  const researcher = createAgent({
    name: 'researcher',
    model: scripted([calls('look'), { text: 'Found it.' }]),
    tools: [
      makeTool('look', {
        sideEffect: 'none',
        run: async () => {
          reached.push('look');
          await sent.promise;
        },
      }),
    ],
  });
  const agent = createAgent({
    name: 'shop',
    store,
    model: scripted([
      calls('ship', ['research', { input: 'red' }]),
      { text: 'Started.' },
      ...Array.from({ length: 6 }, () => ({ text: 'Done.' })),
    ]),
    tools: [
      makeTool('ship', {
        background: true,
        run: async () => {
          reached.push('ship');
          await sent.promise;
          return { sent: 1 };
        },
      }),
      researcher.asTool({ name: 'research', description: 'Researches.', background: true }),
    ],
  });
  const run = await agent.start('Ship it.');
  await vi.waitFor(() => expect(reached.toSorted()).toEqual(['look', 'ship']));
  await vi.waitFor(() => expect(run.context.next?.type).toBe('awaitResults'));
  return { store, agent, run, reached, end: () => sent.open() };
}

function outcomes(transcript: readonly Item[]): string[] {
  const found = transcript.flatMap(item =>
    item.type === 'message' && item.outcomeOf !== undefined ? [textOf(item)] : [],
  );
  return found.toSorted();
}

async function seqOf(store: Store, runId: string, type: RunEvent['type']): Promise<number> {
  return (await store.read(runId)).findLast(({ event }) => event.type === type)?.seq ?? 0;
}

async function expectBoth(fork: Run, store: Store): Promise<void> {
  expect(await fork.settled()).toMatchObject({ status: 'finished', text: 'Done.' });
  expect(outcomes(fork.context.transcript)).toEqual([SENT, FOUND]);
  expect(await replayRun(store, fork.id)).toMatchObject({ equal: true });
  expect((await store.list({ parent: fork.id })).runs).toEqual([]);
}

describe('a fork', () => {
  test('after the outcomes has them', async () => {
    const { store, run, reached, end } = await beginWork();
    end();
    await run.settled();
    await expectBoth(await run.fork({ at: await seqOf(store, run.id, 'message.received') }), store);
    expect(reached).toHaveLength(2);
  });

  test('before the outcomes reads how the work of its original ended', async () => {
    const { store, run, reached, end } = await beginWork();
    end();
    await run.settled();
    await expectBoth(await run.fork({ at: await seqOf(store, run.id, 'tool.suspended') }), store);
    expect(reached).toHaveLength(2);
  });

  test('while the work goes on waits for it, and does not drive or cancel it', async () => {
    const { store, run, reached, end } = await beginWork();
    const at = (await store.read(run.id)).length;
    const [fork, other] = [await run.fork({ at }), await run.fork({ at })];
    expect(await fork.settled()).toMatchObject({ status: 'waiting', open: [] });
    await other.cancel();
    expect((await other.settled()).status).toBe('cancelled');
    end();
    expect((await run.settled()).status).toBe('finished');
    await expectBoth(fork, store);
    expect(reached).toHaveLength(2);
  });

  test('before the work began begins its own', async () => {
    const { store, run, reached, end } = await beginWork();
    end();
    await run.settled();
    const fork = await run.fork({ at: 2 });
    expect((await fork.settled()).status).toBe('finished');
    expect(outcomes(fork.context.transcript)).toEqual([SENT, FOUND]);
    expect((await store.list({ parent: fork.id })).runs).toHaveLength(2);
    expect(reached).toHaveLength(4);
  });

  test('where the work was about to begin is in doubt about it', async () => {
    const { store, run, reached, end } = await beginWork();
    end();
    await run.settled();
    const started = (await store.read(run.id)).find(({ event }) => event.type === 'tool.started');
    const fork = await run.fork({ at: started?.seq ?? 0 });
    expect(await fork.settled()).toMatchObject({ doubts: [{ name: 'ship' }] });
    expect(reached.filter(name => name === 'ship')).toHaveLength(1);
  });

  test('keeps the run from being deleted whose work it waits for', async () => {
    const { store, run, end } = await beginWork();
    end();
    await run.settled();
    await run.fork({ at: await seqOf(store, run.id, 'tool.suspended') });
    const deleted = store.delete(run.id, { now: Date.now(), isDead: () => true });
    await expect(deleted).rejects.toMatchObject({ code: 'refused' });
  });

  test.each([
    ['from the beginning', 2],
    ['where the work was about to begin', 'tool.started'],
    ['where the work had begun', 'tool.suspended'],
  ] as const)('that plays results %s plays the receipts and the outcomes', async (_, place) => {
    const { store, run, reached, end } = await beginWork();
    end();
    await run.settled();
    const at = typeof place === 'number' ? place : await seqOf(store, run.id, place);
    const fork = await run.fork({ at, replayTools: true });
    await expectBoth(fork, store);
    expect(reached).toHaveLength(2);
    const results = (items: readonly Item[]) => items.filter(({ type }) => type === 'tool_result');
    expect(results(fork.context.transcript)).toEqual(results(run.context.transcript));
    expect(fork.context.toolCalls).toBe(run.context.toolCalls);
  });

  test('of the run of one call is a run of that call', async () => {
    const { store, agent, run, reached, end } = await beginWork();
    end();
    await run.settled();
    const child = (await store.list({ parent: run.id })).runs.find(one => one.agent === 'shop');
    const fork = await (await agent.open(child?.runId ?? '')).fork({ at: 1 });
    expect(await fork.settled()).toMatchObject({ status: 'finished', output: { sent: 1 } });
    expect(reached.filter(name => name === 'ship')).toHaveLength(2);
    expect(await countEvents(store, run.id, 'message.received')).toBe(2);
  });
});

describe('an edit while work goes on', () => {
  test('of the transcript keeps the work, whose outcome arrives', async () => {
    const { store, run, reached, end } = await beginWork();
    const withoutAnswer = run.context.transcript.slice(0, -1);
    expect(await run.editTranscript(withoutAnswer)).toMatchObject({ accepted: true });
    await vi.waitFor(() => expect(run.context.turns).toBe(3));
    end();
    await run.settled();
    expect(outcomes(run.context.transcript)).toEqual([SENT, FOUND]);
    expect(reached).toHaveLength(2);
    expect(await replayRun(store, run.id)).toMatchObject({ equal: true });
  });

  test('of the transcript that leaves out the receipts begins nothing again', async () => {
    const { run, reached, end } = await beginWork();
    const calls = run.context.transcript.filter(({ type }) => type !== 'tool_result').slice(0, 3);
    expect(await run.editTranscript(calls)).toMatchObject({ accepted: true });
    end();
    await run.settled();
    const results = run.context.transcript.filter(({ type }) => type === 'tool_result');
    expect(results).toMatchObject([{ receipt: 'run' }, { receipt: 'run' }]);
    expect(reached).toHaveLength(2);
    expect(outcomes(run.context.transcript)).toEqual([SENT, FOUND]);
  });

  test('of the last turn is accepted, and the outcomes arrive', async () => {
    const { run, end } = await beginWork();
    const result = await run.editTurn({ text: 'I have started.' });
    end();
    await run.settled();
    expect(result).toMatchObject({ accepted: true });
    expect(textOf(run.context.transcript.find(isAnswer) as MessageItem)).toBe('I have started.');
    expect(outcomes(run.context.transcript)).toEqual([SENT, FOUND]);
  });

  test('cannot retry a call whose work has begun', async () => {
    const { run, end } = await beginWork();
    expect(await run.retry('call_0_0')).toMatchObject({ accepted: false, code: 'call-not-open' });
    end();
    await run.settled();
  });
});
