import { appendFileSync } from 'node:fs';
import * as z from 'zod';
import { createAgent } from '../../../agent/agent.ts';
import { systemHost } from '../../../engine/host/host.ts';
import type { Run } from '../../../engine/run/run.ts';
import type { Item } from '../../../protocol/item.ts';
import { textOf } from '../../../protocol/message.ts';
import type { ModelRequest } from '../../../protocol/turn.ts';
import { sqlite } from '../../../stores/sqlite.ts';
import { tool } from '../../../tools/tool.ts';
import { answerWith } from './models.ts';

/**
 * Messages of a customer to a support chat, each a run that continues the one before: `node support-chat.ts JSON`. The
 * model is forgetful: once it reads a summary instead of the messages, it refunds again what the summary mentions. The
 * clerk rejects every call that is gated. Prints the id of the last run.
 */
export type ChatPart = {
  /** The file of the store, and that of the payments: a line for each. */
  db: string;
  payments: string;
  /** The messages to send, counted from 0; those of which a run exists already are only finished. */
  from: number;
  to: number;
  /** How long after its time the process takes the first message, in ms: the lease of one that died runs out. */
  lateMs?: number;
  /** Dies right after the payment of this order, or after the summary that the first compaction asked for. */
  dieAt?: { order: string } | { compaction: true };
  /** As if nothing were remembered: an equal call is not gated. */
  repeatable?: true;
};

const REFUND_EVERY = 8;
const MESSAGES_A_DAY = 67;
const DAY_MS = 86_400_000;

export const orderOf = (message: number) => `A-${1000 + message}`;
export const isRefund = (message: number) => message % REFUND_EVERY === 3;

function messageOf(at: number): string {
  return isRefund(at)
    ? `Refund order ${orderOf(at)}, please.`
    : `Question ${at}: how long does the delivery of parcel ${at} take? ${'I wonder. '.repeat(20)}`;
}

const ASKS_FOR_SUMMARY = /^Summarize this conversation\./;

/** What the model reads, as a text. */
const readable = ({ transcript }: ModelRequest) => transcript.map(item => textOf(item)).join('\n');

function forgetful() {
  return answerWith(
    request => {
      const text = readable(request);
      const usage = {
        inputTokens: Math.ceil(text.length / 4),
        outputTokens: 20,
        cachedInputTokens: 0,
        cacheWriteTokens: 0,
        reasoningTokens: null,
      };
      const last = request.transcript.at(-1) as Item;
      if (ASKS_FOR_SUMMARY.test(textOf(last)))
        return { text: `Asked to refund ${[...new Set(text.match(/A-\d+/g))].join(', ')}.`, usage };
      const called = new Set(
        request.transcript.flatMap(item => (item.type === 'tool_call' ? [item.arguments] : [])),
      );
      const summary = /<conversation-summary>([\s\S]*?)<\/conversation-summary>/.exec(text)?.[1] ?? '';
      const asked = /^Refund order (A-\d+)/.exec(textOf(last))?.[1];
      const [again] = summary.match(/A-\d+/g) ?? [];
      const order = asked ?? (called.size === 0 ? again : undefined);
      if (order === undefined || last.type === 'tool_result') return { text: 'Two days.', usage };
      return {
        toolCalls: [{ callId: `call_${order}_${text.length}`, name: 'refund', input: { order } }],
        usage,
      };
    },
    { provider: 'stand-in', model: 'forgetful' },
  );
}

function makeSupport({ db, payments, dieAt = { order: '' }, repeatable }: ChatPart, at: () => number) {
  const die = () => process.kill(process.pid, 'SIGKILL');
  const host = {
    ...systemHost,
    now: at,
    reach(point: string) {
      if ('compaction' in dieAt && point === 'compaction.after') die();
    },
  };
  const refund = tool({
    name: 'refund',
    description: 'Refunds an order.',
    input: z.object({ order: z.string() }),
    ...(repeatable && { repeatable }),
    run({ order }) {
      appendFileSync(payments, `${order}\n`);
      if ('order' in dieAt && dieAt.order === order) die();
      return { refunded: order };
    },
  });
  return createAgent({
    name: 'support',
    model: forgetful(),
    instructions: 'You help with orders.',
    tools: [refund],
    host,
    store: sqlite(db),
    prices: { forgetful: { input: 3, output: 15, cachedInput: 0.3 } },
    compaction: { at: 3_200, summarize: 'model' },
  });
}

/** Settles a run: what is gated is rejected, and what may have happened has happened if it was paid for. */
async function finish(run: Run): Promise<void> {
  for (;;) {
    const settled = await run.settled();
    if (settled.status !== 'waiting') return;
    for (const open of settled.open) {
      if (open.kind === 'approval')
        await run.reject(open, { reason: 'It is refunded already.', by: 'clerk' });
      if (open.kind === 'doubt')
        await run.resolve(open, { happened: true, output: { refunded: true }, by: 'clerk' });
    }
  }
}

async function chat(part: ChatPart): Promise<string> {
  const { from, to, lateMs = 0 } = part;
  let message = from;
  const start = Math.round(Date.UTC(2026, 10, 2, 8) + lateMs - performance.now());
  const agent = makeSupport(part, () => {
    const days = Math.floor(message / MESSAGES_A_DAY);
    return Math.round(start + days * DAY_MS + message * 60_000 + performance.now());
  });
  for (; message < to; message += 1) {
    const runId = `run_${message}`;
    const known = await agent.store.get(runId);
    const run =
      known !== undefined
        ? await agent.open(runId)
        : await agent.start(messageOf(message), {
            runId,
            ...(message > 0 && { continues: `run_${message - 1}` }),
          });
    await finish(run);
  }
  await agent.store.close?.();
  return `run_${to - 1}`;
}

if (import.meta.main) process.stdout.write(await chat(JSON.parse(process.argv[2] ?? '')));
