// server/runs/inbox: the open decisions of all runs.

import type { Context } from 'hono';
import * as z from 'zod';
import { parseLabels } from '../../../protocol/listing/label.ts';
import type { InboxItem } from '../../../protocol/run-view.ts';
import { listFilterSchema } from '../../../protocol/store.ts';
import { withLabelsOf } from '../../access/authorize.ts';
import { fields } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { openCallSchema } from '../run-view.ts';
import type { Inbox } from './read-inbox.ts';

const MOST_RUNS = 200;

const { order, cursor } = listFilterSchema.shape;

export const inboxQuery = fields({
  label: z
    .exactOptional(z.array(z.string()))
    .meta({ description: 'NAME=VALUE; repeatable. The run has all of these labels.' }),
  order: z.optional(order).meta({ description: 'By the creation of the runs. Default: newest first.' }),
  limit: z.coerce.number().int().min(1).max(MOST_RUNS).default(50).meta({
    description: 'How many runs a page covers. The page has all items of these runs.',
  }),
  cursor,
});

const inboxItemSchema = z.object({
  kind: openCallSchema.shape.kind,
  runId: z.string().meta({ description: 'The run that takes the decision.' }),
  rootId: z
    .string()
    .meta({ description: 'The topmost run of its family; the run itself if it has no parent.' }),
  agent: z.string(),
  title: z.string().meta({ description: 'The title of the topmost run.' }),
  since: z
    .number()
    .meta({ description: 'When the call began to wait as it does now, in ms since the epoch.' }),
  call: openCallSchema,
}) satisfies z.ZodType<InboxItem>;

export const inboxSchema = z.object({
  items: z.array(inboxItemSchema),
  next: z.exactOptional(z.string()).meta({ description: 'The cursor of the next page. Absent at the end.' }),
});

export async function readInbox(
  c: Context<RunsEnv>,
  { label = [], order: sorted = 'desc', ...page }: z.output<typeof inboxQuery>,
  inbox: Inbox,
): Promise<Response> {
  return c.json(
    await inbox.read({ ...page, order: sorted, labels: withLabelsOf(c.get('caller'), parseLabels(label)) }),
  );
}
