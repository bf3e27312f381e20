import * as z from 'zod';
import type { Host } from '../../engine/host/host.ts';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { type Fold, progressOf } from '../../engine/journal/load-run.ts';
import { listOpen, listUnsettled } from '../../engine/log/settled.ts';
import { describeWithChildren } from '../../engine/sub-agents/children.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import type { ChartState } from '../../machines/step.ts';
import { limitsSchema } from '../../protocol/config.ts';
import type { Question } from '../../protocol/event.ts';
import { type Item, itemSchema } from '../../protocol/item.ts';
import { type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import type {
  JsonCall,
  JsonOpenCall,
  OpenPause,
  OpenQuestion,
  OpenReview,
  OpenSignIn,
  RunSummary,
  RunView,
  Stranding,
} from '../../protocol/run-view.ts';
import { isDriven, progressSchema, type RunRecord, type Store } from '../../protocol/store.ts';
import { usageSchema } from '../../protocol/turn.ts';
import { optional } from '../fields.ts';
import { adviseOnEnd } from './advise-on-end.ts';

const runSummaryFields = z.object({
  runId: z.string(),
  agent: z.string(),
  status: z.enum(['running', 'waiting', 'finished', 'failed', 'cancelled']),
  createdAt: z.number().meta({ description: 'ms since the epoch' }),
  updatedAt: z.number().meta({ description: 'ms since the epoch' }),
  seq: z.number().int().meta({ description: 'The sequence number of the last journal entry.' }),
  title: z
    .string()
    .meta({ description: 'The given title, else the first line of what the user said last in the input.' }),
  labels: z.custom<Labels>().meta({ description: 'Strings by name.', type: 'object' }),
  state: z.string().meta({ description: 'The path of the current state, such as resting.awaitingApproval.' }),
  why: optional(z.string(), 'The reason for the last decision of the chart.'),
  waitsFor: progressSchema.shape.waitsFor,
  model: optional(
    z.string(),
    'The model of the latest turn that was completed or failed, such as openai:gpt-5.',
  ),
  turns: z.number().int(),
  tokens: z.number().meta({ description: 'Input and output tokens.' }),
  cached: progressSchema.shape.cached,
  cost: z.number(),
  activeMs: z.number(),
  endedAt: optional(z.number(), 'ms since the epoch'),
  errorCode: z.exactOptional(z.string()),
  incomplete: progressSchema.shape.incomplete,
  parent: optional(
    z.object({ runId: z.string(), callId: z.string() }),
    "The call that started this run, if it is a sub-agent's run.",
  ),
  forkOf: optional(
    z.object({ runId: z.string(), at: z.number().int() }),
    'The run whose journal was copied, and the last entry of the copy.',
  ),
  continues: optional(z.string(), 'The run whose transcript this run continues.'),
  thread: optional(z.string(), 'The id of the thread that the run belongs to, with its labels.'),
  place: optional(z.number().int(), 'Its place in the thread, from 1. A fork has none unless it took one.'),
});
export const runSummarySchema = runSummaryFields satisfies z.ZodType<RunSummary>;

const gateFields = {
  callId: z.string().meta({ description: 'Names the call, or the review, in commands.' }),
  runId: z.string().meta({
    description: "The run that takes the decision: for a sub-agent, the sub-agent's run.",
  }),
  digest: z.string(),
  reason: optional(z.string(), 'Why it needs a decision, or why the outcome is unknown.'),
  expiresAt: optional(z.number(), 'ms since the epoch'),
  by: optional(z.array(z.string()), 'The groups that may decide: one is enough.'),
  not: optional(z.enum(['starter', 'sender']), 'Who may not decide.'),
  excluded: optional(
    z.array(z.nullable(z.string())),
    'The names of those who may not decide, with `not`; null for people without a name.',
  ),
  quorum: optional(z.number().int(), 'How many people must approve.'),
  approvedBy: optional(z.array(z.string()), 'Who has approved it.'),
};

const callFields = {
  ...gateFields,
  name: z.string(),
  input: z.custom<JsonValue>(),
  sideEffect: z.enum(['none', 'idempotent', 'once']),
};

const kindSchema = z.enum(['approval', 'result', 'doubt']).meta({
  description: 'What to decide: approve or reject; give the result; resolve the doubt.',
});

const id = z.string().meta({ description: 'Names what is open among everything that a run waits for.' });

const openCallSchema = z.object({
  id,
  kind: kindSchema,
  ...callFields,
}) satisfies z.ZodType<JsonOpenCall>;

const openReviewSchema = z.object({
  id,
  kind: z.literal('review').meta({ description: 'Approve the answer, change it, or send it back.' }),
  ...gateFields,
  answer: z.string().meta({ description: 'The text of the answer, before text filters.' }),
  output: optional(z.custom<JsonValue>(), 'Its value by the output schema.'),
}) satisfies z.ZodType<OpenReview>;

const openQuestionSchema = z.object({
  id,
  kind: z.literal('question').meta({ description: 'Answer what the tool asks, or decline to.' }),
  ...callFields,
  questions: z
    .array(z.custom<Question>())
    .meta({ description: 'What is open: { key, message, schema, url?, by?, not?, expiresAt?, fault? }.' }),
}) satisfies z.ZodType<OpenQuestion>;

export const openItemSchema = z.union([openCallSchema, openQuestionSchema, openReviewSchema]);

export const openSignInSchema = z.object({
  id: z.string(),
  kind: z.literal('sign-in').meta({ description: 'Sign in at the tool server.' }),
  runId: z.string(),
  server: z.string(),
  reason: z.string(),
  url: optional(z.string(), 'The address of the server.'),
}) satisfies z.ZodType<OpenSignIn>;

const openPauseSchema = z.object({
  id: z.string(),
  kind: z.literal('pause'),
  runId: z.string(),
  reason: optional(z.string(), 'Why the engine paused the run.'),
}) satisfies z.ZodType<OpenPause>;

const unsettledCallSchema = z.object({
  ...callFields,
  status: z.enum(['gated', 'ready', 'queued', 'running', 'reconciling', 'asking', 'waiting', 'doubted']),
  waitsFor: optional(z.string(), "The sub-agent's run that provides the result."),
}) satisfies z.ZodType<JsonCall>;

export const strandingSchema = z.object({
  type: z.enum(['stranded', 'migrates']).meta({
    description: '`migrates`: workers with these agents migrate the run once no process drives its version.',
  }),
  runId: z.string(),
  reason: z.string(),
  advice: z.string(),
}) satisfies z.ZodType<Stranding>;

export const runViewSchema = runSummaryFields.extend({
  next: z
    .custom<RunView['next']>()
    .meta({ description: 'The latest decision of the chart: { type, why, … }.' }),
  paused: z.boolean(),
  toolCalls: z.number().int(),
  limits: limitsSchema,
  usage: z.nullable(usageSchema),
  settled: z.custom<RunView['settled']>().meta({
    description: 'null while the run has something to do. Includes what the runs of its sub-agents wait for.',
  }),
  open: z
    .array(z.union([openCallSchema, openQuestionSchema, openReviewSchema, openSignInSchema, openPauseSchema]))
    .meta({
      description:
        'What the run waits for: its own calls or answer, then those of the runs of its sub-agents.',
    }),
  calls: z.array(unsettledCallSchema).meta({ description: "This run's own calls without a result." }),
  background: z.array(z.object({ callId: z.string(), name: z.string(), runId: z.string() })).meta({
    description: 'Background work without an outcome so far, each with the run that does it.',
  }),
  driver: z
    .object({ host: z.string(), pid: z.number().int(), until: z.number() })
    .nullable()
    .meta({ description: 'The process that drives the run; until is the end of its lease.' }),
  transcript: z.array(itemSchema).meta({
    description: "This run's own transcript, without that of the run it continues.",
  }),
  answer: z.exactOptional(z.string()),
  advice: optional(z.string(), 'Why the run failed or its answer is incomplete, and what to do.'),
  availableAgent: z.boolean().meta({ description: 'Whether this server can drive the run.' }),
  stranded: optional(
    strandingSchema,
    "Why processes with this server's agents do not drive the run, or a sub-agent's run below it, although it has something to do.",
  ),
  chart: z.object({ version: z.number().int(), hash: z.string() }),
}) satisfies z.ZodType<RunView>;

export type ViewOptions = {
  store: Store;
  host: Host;
  availableAgent: boolean;
  showText(text: string): string;
  stranded?: Stranding;
};

export function summarizeRun({
  owner,
  leaseUntil,
  epoch,
  redactions,
  agentVersion,
  chart,
  wakeAt,
  ...summary
}: RunRecord): RunSummary {
  return summary;
}

export async function viewRun(record: RunRecord, fold: Fold, options: ViewOptions): Promise<RunView> {
  const { store, host, availableAgent, showText, stranded } = options;
  const { state, seq } = fold;
  const { context } = state;
  const settled = await describeWithChildren(store, state, showText);
  return {
    ...summarizeRun(record),
    ...progressOf(state),
    status: settled?.status ?? 'running',
    seq,
    next: context.next,
    paused: context.paused,
    toolCalls: context.toolCalls,
    limits: context.config.limits,
    usage: context.usage,
    settled,
    open: settled?.status === 'waiting' ? (settled.open as RunView['open']) : listOpen(context),
    calls: listUnsettled(context),
    background: context.background.map(({ callId, name, childRunId: runId }) => ({ callId, name, runId })),
    driver: describeDriver(record, host.now()),
    transcript: showTranscript(state, showText),
    availableAgent,
    chart: chartIdentity(),
    ...omitUndefined({
      answer: settled?.status === 'finished' ? settled.text : undefined,
      advice: adviseOnEnd(settled),
      stranded,
    }),
  };
}

function describeDriver(record: RunRecord, now: number): RunView['driver'] {
  if (!isDriven(record, now, isOwnerDead)) return null;
  const { owner, leaseUntil } = record;
  return { host: owner.host, pid: owner.pid, until: leaseUntil };
}

/** With the model's texts filtered. Messages that no model call has read yet come last. */
export function showTranscript({ context }: ChartState, showText: (text: string) => string): Item[] {
  return [...context.transcript, ...context.inbox].map(item => {
    if (item.type !== 'message' || item.role !== 'assistant') return item;
    const content = item.content.map(part =>
      part.type === 'text' ? { ...part, text: showText(part.text) } : part,
    );
    return { ...item, content };
  });
}
