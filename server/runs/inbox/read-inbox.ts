import type { Context } from 'hono';
import * as z from 'zod';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { readPages } from '../../../engine/journal/read-journal.ts';
import { listOpen } from '../../../machines/settled.ts';
import type { EngineError } from '../../../protocol/error.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { type Labels, parseLabels } from '../../../protocol/listing/label.ts';
import { type InboxItem, isOpenItem } from '../../../protocol/run-view.ts';
import { listFilterSchema, type RunRecord, type Store } from '../../../protocol/store.ts';
import { withLabelsOf } from '../../access/authorize.ts';
import { fields, optional } from '../../fields.ts';
import { remember } from '../../remember.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { openItemSchema } from '../run-view.ts';

const MOST_KNOWN = 5_000;

const DEEPEST = 32;

/** How many of a journal's last entries are read to find out since when its calls wait, and how many at once. */
const MOST_READ = 4_096;
const PAGE = 256;

/** How many runs without an own open decision one request may read before the page ends. */
const MOST_SKIPPED = 10_000;

export type InboxQuery = {
  labels: Labels;
  limit: number;
  order: 'asc' | 'desc';
  cursor?: string;
};

/**
 * Reads the open decisions of all runs of a store.
 *
 * I1 The store's list shows which runs wait for a decision about their own calls. Only the journals of the page's runs
 *    are read, and again only after a new entry.
 * I2 A call is an item of the run that takes its decision: a call that waits for a sub-agent's run is not an item.
 */
export class Inbox {
  readonly #store: Store;
  readonly #known = new Map<string, { seq: number; items: InboxItem[] }>();
  readonly #roots = new Map<string, { runId: string; title: string }>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Ordered by the creation of the runs. `limit` counts runs; a page has all items of its runs. */
  async read({ limit, cursor, ...filter }: InboxQuery): Promise<{ items: InboxItem[]; next?: string }> {
    const items: InboxItem[] = [];
    const onDamaged = (_: EngineError) => {};
    let after = cursor;
    let skipped = 0;
    do {
      const page = await this.#store.list({
        ...filter,
        status: 'waiting',
        limit,
        onDamaged,
        ...omitUndefined({ cursor: after }),
      });
      for (const record of page.runs) items.push(...(await this.itemsOf(record)));
      after = page.next;
      skipped += page.runs.length;
    } while (items.length === 0 && after !== undefined && skipped < MOST_SKIPPED);
    return { items, ...omitUndefined({ next: after }) };
  }

  /** Returns the items of one run; none if the run waits for no decision about its own calls, or cannot be read. */
  async itemsOf(record: RunRecord): Promise<InboxItem[]> {
    const { runId, seq } = record;
    if (keysOf(record).length === 0) return [];
    const known = this.#known.get(runId);
    if (known?.seq === seq) return known.items;
    const items = await this.#load(record).catch(() => []);
    remember(this.#known, runId, { seq, items }, MOST_KNOWN);
    return items;
  }

  async #load(record: RunRecord): Promise<InboxItem[]> {
    const { runId, agent } = record;
    const { state, seq } = await loadRun(this.#store, runId);
    const { context } = state;
    const root = await this.#rootOf(record);
    const open = listOpen(context).filter(isOpenItem);
    const since = await this.#waitingSince(
      runId,
      seq,
      open.map(({ callId }) => callId),
    );
    return open.map(call => ({
      kind: call.kind,
      runId,
      rootId: root.runId,
      agent,
      title: root.title,
      since: since.get(call.callId) ?? context.now,
      call,
    }));
  }

  /** Finds the time of the last entry about each call, or of the turn that made it. Reads the journal backwards. */
  async #waitingSince(runId: string, last: number, calls: readonly string[]): Promise<Map<string, number>> {
    const since = new Map<string, number>();
    const least = Math.max(0, last - MOST_READ);
    for (let before = last; before > least && since.size < calls.length; before -= PAGE) {
      const found = new Map<string, number>();
      const from = Math.max(least, before - PAGE);
      for await (const page of readPages(this.#store, runId, from, { last: before }))
        for (const { seq, event } of page)
          if (seq <= before) for (const callId of callsOf(event)) found.set(callId, event.at);
      for (const callId of calls)
        if (!since.has(callId) && found.has(callId)) since.set(callId, found.get(callId) ?? 0);
    }
    return since;
  }

  async #rootOf(record: RunRecord): Promise<{ runId: string; title: string }> {
    const known = this.#roots.get(record.runId);
    if (known !== undefined) return known;
    let root = record;
    for (let depth = 0; root.parent !== undefined && depth < DEEPEST; depth += 1) {
      const above = await this.#store.get(root.parent.runId);
      if (above === undefined) break;
      root = above;
    }
    const found = { runId: root.runId, title: root.title };
    remember(this.#roots, record.runId, found, MOST_KNOWN);
    return found;
  }
}

/** Returns the calls that a run itself waits for, from its record: the first 20. */
export function keysOf({ status, waitsFor = [] }: RunRecord): string[] {
  if (status !== 'waiting') return [];
  return waitsFor.flatMap(({ type, callId, runId }) => (runId === undefined ? [`${type} ${callId}`] : []));
}

/** The calls, or the review, that wait anew after an event. */
function callsOf(event: RunEvent): string[] {
  if ('reviewId' in event) return [event.reviewId];
  if (event.type === 'turn.completed' || event.type === 'turn.edited')
    return event.calls.map(({ callId }) => callId);
  return 'callId' in event && event.type !== 'tool.late' ? [event.callId] : [];
}

const MOST_RUNS = 200;

const { order, cursor } = listFilterSchema.shape;

export const inboxQuery = fields({
  label: optional(z.array(z.string()), 'NAME=VALUE; repeatable. The run has all of these labels.'),
  order: z.optional(order).meta({ description: 'By the creation of the runs. Default: newest first.' }),
  limit: z.coerce.number().int().min(1).max(MOST_RUNS).default(50).meta({
    description: 'How many runs a page covers. The page has all items of these runs.',
  }),
  cursor,
});

const inboxItemSchema = z.object({
  kind: z.enum(['approval', 'result', 'doubt', 'question', 'review']),
  runId: z.string().meta({ description: 'The run that takes the decision.' }),
  rootId: z
    .string()
    .meta({ description: 'The topmost run of its family; the run itself if it has no parent.' }),
  agent: z.string(),
  title: z.string().meta({ description: 'The title of the topmost run.' }),
  since: z
    .number()
    .meta({ description: 'When the call began to wait as it does now, in ms since the epoch.' }),
  call: openItemSchema,
}) satisfies z.ZodType<InboxItem>;

export const inboxSchema = z.object({
  items: z.array(inboxItemSchema),
  next: optional(z.string(), 'The cursor of the next page. Absent at the end.'),
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
