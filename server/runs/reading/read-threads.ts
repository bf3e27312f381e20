import type { Context } from 'hono';
import * as z from 'zod';
import { byOf } from '../../../access/caller.ts';
import { messagesOfRun, type Thread, totalsOf } from '../../../agent/thread.ts';
import { itemSchema } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { type Labels, parseLabels } from '../../../protocol/listing/label.ts';
import { isOpen, listAll, MOST_LISTED, type RunRecord } from '../../../protocol/store.ts';
import { withLabelsOf } from '../../access/authorize.ts';
import { ApiError } from '../../error-envelope.ts';
import { fields, optional } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { labelsOfThread } from '../find-thread.ts';
import type { RouteParts } from '../route-parts.ts';
import { runSummarySchema, summarizeRun } from '../run-view.ts';

const label = optional(
  z.array(z.string()),
  'NAME=VALUE; repeatable. Needed if several threads that you see have the id: a thread is its id with its labels.',
);

export const threadQuery = fields({ label });

export const threadsQuery = fields({
  label: optional(z.array(z.string()), 'NAME=VALUE; repeatable. The thread has all of these labels.'),
  agent: optional(z.string().max(1_000), 'The name of the agent of the latest run.'),
  text: optional(
    z.string().min(1).max(200),
    'Words, in upper or lower case. One run of the thread has all of them, as in `GET /runs`.',
  ),
  limit: z._default(z.coerce.number().int().min(1).max(MOST_LISTED), 50),
  cursor: optional(z.string().max(20_000), '`next` of the page before.'),
});

const labels = z.custom<Labels>().meta({ description: 'Strings by name.', type: 'object' });

export const threadsSchema = z.object({
  threads: z.array(
    z.object({
      id: z.string(),
      labels,
      latest: runSummarySchema.meta({ description: 'The latest run.' }),
    }),
  ),
  next: optional(z.string(), 'The cursor of the next page, for the same filter. Absent at the end.'),
});

export const threadViewSchema = z.object({
  id: z.string(),
  labels,
  messages: z
    .array(itemSchema)
    .meta({ description: 'Those of the user and the agents, as readers see them, oldest first.' }),
  runs: z.array(runSummarySchema).meta({ description: 'In their order.' }),
  open: z.nullable(z.string()).meta({ description: 'The id of the run that has not ended.' }),
  totals: z.object({
    runs: z.number().int(),
    turns: z.number().int(),
    tokens: z.number(),
    cost: z.number(),
    activeMs: z.number(),
  }),
});

/** By their latest runs, newest first. */
export async function listThreads(
  c: Context<RunsEnv>,
  { label: given = [], ...filter }: z.output<typeof threadsQuery>,
  { store }: RouteParts,
): Promise<Response> {
  const wanted = withLabelsOf(c.get('caller'), parseLabels(given));
  const { runs, next } = await store.list({ ...filter, labels: wanted, latest: true, onDamaged() {} });
  const threads = runs.map(latest => ({
    id: latest.thread ?? '',
    labels: latest.labels,
    latest: summarizeRun(latest),
  }));
  return c.json({ threads, ...omitUndefined({ next }) });
}

export async function answerThread(
  c: Context<RunsEnv>,
  id: string,
  query: z.output<typeof threadQuery>,
  parts: RouteParts,
): Promise<Response> {
  const thread = await threadOf(c, id, query, parts);
  const runs = await thread.runs();
  const latest = runs.at(-1);
  if (latest === undefined) throw new ApiError('not-found', 'There is no thread with this id and labels.');
  const { labels: own } = thread;
  const { store, agents } = parts;
  return c.json({
    id,
    labels: own,
    messages: await messagesOfRun(store, latest, name => agents.filtersOf(name)),
    runs: runs.map(summarizeRun),
    open: isOpen(latest) ? latest.runId : null,
    totals: totalsOf(runs),
  });
}

/** Of a thread without runs, deletes nothing. */
export async function deleteThread(
  c: Context<RunsEnv>,
  id: string,
  query: z.output<typeof threadQuery>,
  parts: RouteParts,
): Promise<Response> {
  const thread = await threadOf(c, id, query, parts);
  const records = new Map<string, RunRecord>();
  for await (const record of listAll(parts.store, { thread: { id, labels: thread.labels } }))
    records.set(record.runId, record);
  const deleted = await thread.delete(omitUndefined({ by: byOf(c.get('caller')) }));
  for (const runId of deleted)
    parts.changes.noteDeleted(records.get(runId) ?? { runId, labels: thread.labels });
  return c.json({ deleted });
}

/** The thread as the agent of its latest run shows it. */
async function threadOf(
  c: Context<RunsEnv>,
  id: string,
  { label: given = [] }: z.output<typeof threadQuery>,
  { store, agents }: RouteParts,
): Promise<Thread> {
  const wanted = withLabelsOf(c.get('caller'), parseLabels(given));
  const found = await labelsOfThread(store, id, wanted);
  const { runs } = await store.list({ thread: { id, labels: found }, latest: true });
  return agents.reading(runs[0]?.agent ?? 'none').thread(id, { labels: found });
}
