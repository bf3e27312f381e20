import { beforeAll, expect, test } from 'vitest';
import { createAgent } from '../../../agent/agent.ts';
import { loadRun } from '../../../engine/journal/load-run.ts';
import type { Context } from '../../../machines/context.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import { textOf } from '../../../protocol/message.ts';
import { memory } from '../../../stores/memory.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { makeTool } from '../../support/engine/agents.ts';
import { answerWith } from '../../support/engine/models.ts';

const TURNS = 2000;
/** The conversation is compacted once it has more items than this. */
const MOST_ITEMS = 40;
const TOKENS_PER_ITEM = 10;
const MOST_BYTES_PER_DEED = 90;

const usageOf = (inputTokens: number) => ({
  inputTokens,
  outputTokens: 1,
  cachedInputTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
});

type Sent = { items: number; summary: boolean };

/** A run that makes one `once` call a turn; what its requests and the journal held. */
async function runLong() {
  const sent: Sent[] = [];
  const paid = new Map<unknown, number>();
  let turn = -1;
  const model = answerWith(({ transcript }) => {
    const last = transcript.at(-1);
    const summary = last !== undefined && textOf(last).startsWith('Summarize this conversation.');
    sent.push({ items: transcript.length, summary });
    const usage = usageOf(transcript.length * TOKENS_PER_ITEM);
    if (summary) return { text: 'They want a payment a day.', usage };
    turn += 1;
    if (turn === TURNS) return { text: 'done', usage };
    return { toolCalls: [{ callId: 'the_same_id', name: 'pay', input: { day: turn } }], usage };
  });
  const pay = makeTool('pay', {
    run: input => {
      const key = JSON.stringify(input);
      paid.set(key, (paid.get(key) ?? 0) + 1);
      return 'paid';
    },
  });
  const store = memory();
  const agent = createAgent({
    name: 'payer',
    model,
    store,
    host: new ManualHost(),
    tools: [pay],
    limits: { turns: 2 * TURNS, toolCalls: 2 * TURNS },
    compaction: { at: MOST_ITEMS * TOKENS_PER_ITEM, summarize: 'model' },
  });
  const run = await agent.start('Pay each day.');
  const settled = await run.settled();
  const { state } = await loadRun(store, run.id);
  return { settled, sent, paid, journal: await store.read(run.id), context: state.context };
}

let long: Awaited<ReturnType<typeof runLong>>;
beforeAll(async () => {
  long = await runLong();
});

const sizeOf = (value: unknown): number => JSON.stringify(value).length;

const compactionsIn = (journal: readonly JournalEntry[]) =>
  journal.flatMap(({ event }) => (event.type === 'transcript.compacted' ? [event] : []));

const sum = (counts: Iterable<number>): number => [...counts].reduce((total, count) => total + count, 0);

test('each call of a run of 2,000 turns runs once, and the run ends by itself', () => {
  expect(long.settled).toMatchObject({ status: 'finished', text: 'done' });
  expect(long.paid.size).toBe(TURNS);
  expect(new Set(long.paid.values())).toEqual(new Set([1]));
});

test('every request stays below a bound, and all requests together grow with the turns', () => {
  const turns = long.sent.filter(({ summary }) => !summary).map(({ items }) => items);
  expect(turns).toHaveLength(TURNS + 1);
  expect(Math.max(...long.sent.map(({ items }) => items))).toBeLessThanOrEqual(MOST_ITEMS + 5);
  const half = TURNS / 2;
  expect(sum(turns.slice(half)) / sum(turns.slice(0, half))).toBeCloseTo(1, 1);
});

test('each compaction tells every call before it exactly once', () => {
  const compactions = compactionsIn(long.journal);
  expect(compactions.length).toBeGreaterThan(TURNS / MOST_ITEMS);
  let done = 0;
  const counts: [told: number, done: number][] = [];
  for (const { event } of long.journal) {
    if (event.type === 'tool.settled') done += 1;
    if (event.type === 'transcript.compacted')
      counts.push([event.ledger.deeds.length + sum(Object.values(event.ledger.others)), done]);
  }
  expect(counts.filter(([told, before]) => told !== before)).toEqual([]);
  const { ledger } = long.context;
  expect(sum(Object.values(ledger.counts)) + ledger.fresh.length).toBe(TURNS);
  expect(Object.keys(ledger.past).length + ledger.fresh.length).toBe(TURNS);
});

test('the journal grows alike with every turn', () => {
  const half = long.journal.length / 2;
  const [early, late] = [long.journal.slice(50, half), long.journal.slice(half, -50)];
  expect(sum(late.map(sizeOf)) / sum(early.map(sizeOf))).toBeCloseTo(1, 1);
  const compactions = compactionsIn(long.journal);
  const tenth = compactions[10];
  expect(sizeOf(compactions.at(-1))).toBeLessThan(1.1 * sizeOf(tenth));
});

test('the state stays as small as the transcript, but for a short entry for each call', () => {
  const { ledger, compaction, ...rest }: Context = long.context;
  expect(sizeOf(rest)).toBeLessThan(40_000);
  expect(sizeOf({ ledger, compaction })).toBeLessThan(MOST_BYTES_PER_DEED * TURNS);
});
