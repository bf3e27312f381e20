import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { createAgent, tool } from '../../agent/index.ts';
import type { Context } from '../../machines/context.ts';
import { fold } from '../../machines/fold.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { userMessage } from '../../protocol/message.ts';
import { explore } from '../../testing/index.ts';
import { recording } from '../support/tools/planted/planted.ts';

/** Compactions with one defect each, and the invariant that detects it. */

const pay = tool({
  name: 'pay',
  description: 'Pays.',
  input: z.object({ cents: z.literal(1) }),
  run: () => 'paid',
});

const agent = createAgent({
  name: 'compacts',
  tools: [pay],
  limits: { turns: 2, toolCalls: 2 },
  retry: { attempts: 1 },
  onLimit: 'stop',
  compaction: { at: 1000, summarize: () => 'so far' },
});

const TRANSCRIPT = 'the transcript records what happened, in order';
const LEDGER =
  'what was done is in the ledger, and a call that equals what was done before a compaction needs a decision';
const APPROVAL = 'a call that needs approval never proceeds without one';
const ONE_RESULT =
  'every call has exactly one result, as reported, in call order, before the next model call and at the end';

const afterCompaction = (change: (context: Context) => Context) =>
  recording((context: Context, event: ChartEvent) => {
    const next = fold(context, event);
    return event.type === 'transcript.compacted' ? change(next) : next;
  });

const isSummary = (item: Item) => item.id?.startsWith('summary_') === true;

const changeSummary = (change: (item: Item) => Item) =>
  afterCompaction(context => ({
    ...context,
    transcript: context.transcript.map(item => (isSummary(item) ? change(item) : item)),
  }));

describe('explore finds a planted defect of a compaction', () => {
  it.each([
    [
      'a summary that is an instruction',
      changeSummary(item => (item.type === 'message' ? { ...item, role: 'system' } : item)),
      TRANSCRIPT,
    ],
    [
      'a summary without a frame',
      changeSummary(({ id }) => ({ ...userMessage('They talked.'), id: id ?? '' })),
      TRANSCRIPT,
    ],
    [
      'a ledger that forgets',
      afterCompaction(context => ({ ...context, ledger: { fresh: [], past: {}, counts: {} } })),
      LEDGER,
    ],
    [
      'a ledger that gates nothing',
      afterCompaction(context => ({ ...context, ledger: { ...context.ledger, past: {} } })),
      LEDGER,
    ],
    [
      'a call without its result',
      afterCompaction(context => ({
        ...context,
        transcript: context.transcript.filter(({ type }) => type !== 'tool_result'),
      })),
      ONE_RESULT,
    ],
    [
      'a repetition that runs at once',
      recording((context: Context, event: ChartEvent) =>
        fold({ ...context, ledger: { ...context.ledger, past: {} } }, event),
      ),
      APPROVAL,
    ],
  ] as const)('%s', (_, machine, invariant) => {
    const { breaches } = explore(agent, { machine, maxStates: 2_500 });
    expect(breaches.map(breach => breach.invariant)).toContain(invariant);
  });

  it('finds nothing in the unchanged chart, which compacts, repeats and gates', () => {
    const { breaches } = explore(agent, { maxStates: 2_500 });
    expect(breaches).toEqual([]);
  });
});
