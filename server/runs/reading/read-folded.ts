import type { Context } from 'hono';
import * as z from 'zod';
import { seesRun } from '../../../access/caller.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { type ListFilter, listAll, MOST_LISTED, type Store } from '../../../protocol/store.ts';
import { withLabelsOf } from '../../access/authorize.ts';
import { fields, optional } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { runSummarySchema, summarizeRun } from '../run-view.ts';

const MOST_ROWS = 100;

export const foldedQuery = fields({
  run: z
    .array(z.string().max(1_000))
    .min(1)
    .max(MOST_ROWS)
    .meta({ description: 'The id of a run; repeatable.' }),
});

export const foldedSchema = z.object({
  rows: z.array(
    z.object({
      runId: z.string(),
      subAgents: z.number().int().meta({ description: 'How many runs of sub-agents it has.' }),
      together: optional(
        z.object({
          kind: z.enum(['thread', 'session']),
          title: z.string().meta({ description: 'Of the first run.' }),
          latest: runSummarySchema.meta({
            description: 'The latest run; of a session, the latest that is not a side task.',
          }),
          runs: z.number().int().meta({ description: 'At most 1,000, as in the sums.' }),
          tokens: z.number(),
          cost: z.number(),
          activeMs: z.number(),
        }),
        'What the runs of its thread or session are together. Absent if it is alone.',
      ),
    }),
  ),
});

type Together = NonNullable<z.output<typeof foldedSchema>['rows'][number]['together']>;

/** Runs that the caller does not see, or that do not exist, have no row. */
export async function readFolded(
  c: Context<RunsEnv>,
  { run: ids }: z.output<typeof foldedQuery>,
  store: Store,
): Promise<Response> {
  const caller = c.get('caller');
  const found = await Promise.all(ids.map(id => store.get(id)));
  const records = found.flatMap(record => (record && seesRun(caller, record.labels) ? [record] : []));
  const parents = records.map(({ runId }) => runId);
  const children = new Map<string, number>();
  if (parents.length > 0)
    for await (const { parent } of listAll(store, { parent: parents, onDamaged() {} }))
      if (parent !== undefined) children.set(parent.runId, (children.get(parent.runId) ?? 0) + 1);
  const rows = await Promise.all(
    records.map(async ({ runId, labels, thread }) => {
      const { session } = labels;
      let together: Together | undefined;
      if (thread !== undefined) together = await readTogether(store, { thread: { id: thread, labels } });
      else if (session !== undefined)
        together = await readTogether(store, { labels: withLabelsOf(caller, { session }) });
      return { runId, subAgents: children.get(runId) ?? 0, ...omitUndefined({ together }) };
    }),
  );
  return c.json({ rows } satisfies z.output<typeof foldedSchema>);
}

/** `undefined` for one run. */
async function readTogether(store: Store, filter: ListFilter): Promise<Together | undefined> {
  const { runs } = await store.list({ ...filter, limit: MOST_LISTED, onDamaged() {} });
  const main = runs.filter(({ labels }) => labels.thread === undefined);
  const [latest] = main.length === 0 ? runs : main;
  if (runs.length < 2 || latest === undefined) return undefined;
  const sum = (of: 'tokens' | 'cost' | 'activeMs') => runs.reduce((total, run) => total + run[of], 0);
  return {
    kind: filter.thread === undefined ? 'session' : 'thread',
    title: ((main.length === 0 ? runs : main).at(-1) ?? latest).title,
    latest: summarizeRun(latest),
    runs: runs.length,
    tokens: sum('tokens'),
    cost: sum('cost'),
    activeMs: sum('activeMs'),
  };
}
