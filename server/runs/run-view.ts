import * as z from 'zod';
import type { Host } from '../../engine/driver/host.ts';
import { isOwnerDead } from '../../engine/driver/owner.ts';
import type { Fold } from '../../engine/journal/load-run.ts';
import { listOpenCalls, type Settled } from '../../engine/run/settled.ts';
import { describeWithChildren } from '../../engine/sub-agents/run-children.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import { limitsSchema } from '../../protocol/config.ts';
import type { NextAction } from '../../protocol/effect.ts';
import { type Item, itemSchema } from '../../protocol/item.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { isDriven, type RunRecord, type Store } from '../../protocol/store.ts';
import { usageSchema } from '../../protocol/turn.ts';

export const runSummarySchema = z.object({
  runId: z.string(),
  agent: z.string(),
  status: z.enum(['running', 'waiting', 'finished', 'failed', 'cancelled']),
  createdAt: z.number().meta({ description: 'ms since the epoch' }),
  updatedAt: z.number().meta({ description: 'ms since the epoch' }),
  seq: z.number().int().meta({ description: 'Of the last journal entry.' }),
  continues: z.exactOptional(z.string()),
});
export type RunSummary = z.infer<typeof runSummarySchema>;

export const openCallSchema = z.object({
  callId: z.string(),
  runId: z.string().meta({ description: "The run that has to be told: a sub-agent's for its own calls." }),
  name: z.string(),
  input: z.custom<JsonValue>(),
  digest: z.string(),
  sideEffect: z.enum(['none', 'idempotent', 'once']),
  status: z.enum(['gated', 'ready', 'queued', 'running', 'reconciling', 'waiting', 'doubted']),
  waitsFor: z.exactOptional(z.string()).meta({ description: 'The run that will give its result.' }),
  reason: z.exactOptional(z.string()),
  expiresAt: z.exactOptional(z.number()),
});

export const runViewSchema = runSummarySchema.extend({
  state: z.string().meta({ description: 'The path in the chart, such as resting.awaitingApproval.' }),
  next: z.custom<NextAction | null>().meta({ description: 'What was decided last: { type, why, … }.' }),
  paused: z.boolean(),
  turns: z.number().int(),
  toolCalls: z.number().int(),
  limits: limitsSchema,
  usage: z.nullable(usageSchema),
  cost: z.number(),
  parent: z
    .exactOptional(z.object({ runId: z.string(), callId: z.string() }))
    .meta({ description: "The call of another run that this one, a sub-agent's, answers." }),
  settled: z.custom<Settled | null>().meta({
    description: "null while there is something to do. What sub-agents wait for is among the run's own.",
  }),
  calls: z.array(openCallSchema).meta({ description: "Every call without a result, of this run's own." }),
  driver: z
    .object({ host: z.string(), pid: z.number().int(), until: z.number() })
    .nullable()
    .meta({ description: 'The process that drives the run.' }),
  transcript: z.array(itemSchema).meta({ description: 'Of this run alone, without the one it continues.' }),
  answer: z.exactOptional(z.string()),
  availableAgent: z.boolean().meta({ description: 'Whether this server can drive the run.' }),
  chart: z.object({ version: z.number().int(), hash: z.string() }),
});
export type RunView = z.infer<typeof runViewSchema>;

export type ViewOptions = {
  store: Store;
  host: Host;
  availableAgent: boolean;
  /** What readers get of a raw text. */
  showText(text: string): string;
};

export function summarizeRun({ owner, leaseUntil, epoch, ...summary }: RunRecord): RunSummary {
  return summary;
}

/** A run as its record and the fold of its journal have it, and its sub-agents' runs as the store has them. */
export async function viewRun(record: RunRecord, fold: Fold, options: ViewOptions): Promise<RunView> {
  const { store, host, availableAgent, showText } = options;
  const { state, seq } = fold;
  const { context } = state;
  const settled = await describeWithChildren(store, state, showText);
  return {
    ...summarizeRun(record),
    status: settled?.status ?? 'running',
    seq,
    state: statePath(state),
    next: context.next,
    paused: context.paused,
    turns: context.turns,
    toolCalls: context.toolCalls,
    limits: context.config.limits,
    usage: context.usage,
    cost: context.cost,
    ...(context.parent === null ? {} : { parent: context.parent }),
    settled,
    calls: listOpenCalls(context),
    driver: describeDriver(record, host.now()),
    transcript: showTranscript(state, showText),
    ...(settled?.status === 'finished' ? { answer: settled.text } : {}),
    availableAgent,
    chart: chartIdentity(),
  };
}

function describeDriver(record: RunRecord, now: number): RunView['driver'] {
  if (!isDriven(record, now, isOwnerDead)) return null;
  const { owner, leaseUntil } = record;
  return { host: owner.host, pid: owner.pid, until: leaseUntil };
}

/** What the model said goes through the text filters; messages that no model call has read stand last. */
function showTranscript({ context }: ChartState, showText: (text: string) => string): Item[] {
  return [...context.transcript, ...context.inbox].map(item => {
    if (item.type !== 'message' || item.role !== 'assistant') return item;
    const content = item.content.map(part =>
      part.type === 'text' ? { ...part, text: showText(part.text) } : part,
    );
    return { ...item, content };
  });
}
