import type { Context } from 'hono';
import * as z from 'zod';
import { loadRun } from '../../../engine/journal/load-run.ts';
import { readPage, readPages } from '../../../engine/journal/read-journal.ts';
import { listOpen } from '../../../machines/settled.ts';
import type { EngineError } from '../../../protocol/error.ts';
import type { RunEvent } from '../../../protocol/event.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { type Labels, parseLabels } from '../../../protocol/listing/label.ts';
import { callIdOf, type InboxItem, isOpenItem } from '../../../protocol/run-view.ts';
import { listFilterSchema, MOST_LISTED, type RunRecord, type Store } from '../../../protocol/store.ts';
import { withLabelsOf } from '../../access/authorize.ts';
import { fields, optional } from '../../fields.ts';
import { remember } from '../../remember.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { openItemSchema, openSignInSchema, runSummarySchema } from '../run-view.ts';

const MOST_KNOWN = 5_000;

const DEEPEST = 32;

/** How many of a journal's last entries are read to find out since when its calls wait, and how many at once. */
const MOST_READ = 4_096;
const PAGE = 256;

/** So many calls that a run waits for are in its record. */
const MOST_AWAITED = 20;

/** How many runs without an own open decision one request may read before the page ends. */
const MOST_SKIPPED = 10_000;

export type InboxQuery = {
  labels: Labels;
  limit: number;
  order: 'asc' | 'desc';
  cursor?: string;
};

type InboxPage = { items: InboxItem[]; waiting?: number; next?: string };

/**
 * Reads the open decisions of all runs of a store, and the sign-ins that they wait for.
 *
 * I1 The store's list shows which runs wait for a decision about their own calls. Only the journals of the page's runs
 *    are read, and again only after a new entry or a redaction.
 * I2 A call is an item of the run that takes its decision: a call that waits for a sub-agent's run is not an item.
 */
export class Inbox {
  readonly #store: Store;
  readonly #known = new Map<string, { mark: string; items: InboxItem[] }>();
  readonly #roots = new Map<string, string>();

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * Ordered by the creation of the runs. `limit` counts runs; a page has all items of its runs. The first page says how many
   * items there are in all, unless more than 1,000 runs wait.
   */
  async read({ limit, cursor, ...filter }: InboxQuery): Promise<InboxPage> {
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
    const counted = after === undefined ? items.length : await this.#count(filter);
    const waiting = cursor === undefined ? counted : undefined;
    return { items, ...omitUndefined({ waiting, next: after }) };
  }

  async #count(filter: Pick<InboxQuery, 'labels' | 'order'>): Promise<number | undefined> {
    const onDamaged = (_: EngineError) => {};
    const listed = await this.#store.list({ ...filter, status: 'waiting', limit: MOST_LISTED, onDamaged });
    if (listed.next !== undefined) return undefined;
    let waiting = 0;
    for (const record of listed.runs) {
      const isWhole = (record.waitsFor?.length ?? 0) < MOST_AWAITED;
      waiting += (isWhole ? keysOf(record) : await this.itemsOf(record)).length;
    }
    return waiting;
  }

  /** Returns the items of one run; none if the run waits for no decision about its own calls, or cannot be read. */
  async itemsOf(record: RunRecord): Promise<InboxItem[]> {
    if (keysOf(record).length === 0) return [];
    const root = await this.#rootOf(record);
    const mark = [record.seq, record.redactions, root.redactions].join();
    const known = this.#known.get(record.runId);
    if (known?.mark === mark) return known.items;
    const items = await this.#load(record, root).catch(() => []);
    remember(this.#known, record.runId, { mark, items }, MOST_KNOWN);
    return items;
  }

  async #load(record: RunRecord, root: RunRecord): Promise<InboxItem[]> {
    const { runId, agent, labels, turns, tokens, cost, activeMs } = record;
    const { state, seq } = await loadRun(this.#store, runId);
    const { context } = state;
    const open = listOpen(context).filter(one => isOpenItem(one) || one.kind === 'sign-in');
    const since = await this.#waitingSince(runId, seq, open.map(callIdOf));
    const [start] = await readPage(this.#store, root.runId, 0, { entries: 1 });
    const startedBy = start?.event.type === 'run.started' ? start.event.by : undefined;
    return open.map(call => ({
      kind: call.kind,
      runId,
      rootId: root.runId,
      agent,
      title: root.title,
      labels,
      ...omitUndefined({ startedBy }),
      spent: { turns, tokens, cost, activeMs },
      since: since.get(callIdOf(call)) ?? context.now,
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
          if (seq <= before) for (const callId of awaitedAfter(event)) found.set(callId, event.at);
      for (const callId of calls)
        if (!since.has(callId) && found.has(callId)) since.set(callId, found.get(callId) ?? 0);
    }
    return since;
  }

  async #rootOf(record: RunRecord): Promise<RunRecord> {
    if (record.parent === undefined) return record;
    const known = await this.#store.get(this.#roots.get(record.runId) ?? '');
    if (known !== undefined) return known;
    let root = record;
    for (let depth = 0; root.parent !== undefined && depth < DEEPEST; depth += 1) {
      const above = await this.#store.get(root.parent.runId);
      if (above === undefined) break;
      root = above;
    }
    remember(this.#roots, record.runId, root.runId, MOST_KNOWN);
    return root;
  }
}

/** Returns the calls and sign-ins that a run itself waits for, from its record: the first 20. */
export function keysOf({ status, waitsFor = [] }: RunRecord): string[] {
  if (status !== 'waiting') return [];
  return waitsFor.flatMap(({ type, callId, runId }) => (runId === undefined ? [`${type} ${callId}`] : []));
}

/** The calls, the review or the tool server that wait again after an event. */
function awaitedAfter(event: RunEvent): string[] {
  if (event.type === 'sign-in.requested') return [event.server];
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

const { turns, tokens, cost, activeMs, labels } = runSummarySchema.shape;

export const inboxItemSchema = z.object({
  kind: z.enum(['approval', 'result', 'doubt', 'question', 'review', 'sign-in']),
  runId: z.string().meta({ description: 'The run that takes the decision.' }),
  rootId: z
    .string()
    .meta({ description: 'The topmost run of its family; the run itself if it has no parent.' }),
  agent: z.string(),
  title: z.string().meta({ description: 'The title of the topmost run.' }),
  labels,
  startedBy: optional(z.string(), 'Who started the topmost run, if that is known.'),
  spent: z.object({ turns, tokens, cost, activeMs }).meta({ description: 'What the run has spent.' }),
  since: z
    .number()
    .meta({ description: 'When the call began to wait as it does now, in ms since the epoch.' }),
  call: z.union([openItemSchema, openSignInSchema]),
}) satisfies z.ZodType<InboxItem>;

export const inboxSchema = z.object({
  items: z.array(inboxItemSchema),
  waiting: optional(
    z.number().int(),
    'How many items there are on all pages. Only on the first page, and absent if more than 1,000 runs wait.',
  ),
  next: optional(z.string(), 'The cursor of the next page. Absent at the end.'),
}) satisfies z.ZodType<InboxPage>;

export async function readInbox(
  c: Context<RunsEnv>,
  { label = [], order: sorted = 'desc', ...page }: z.output<typeof inboxQuery>,
  inbox: Inbox,
): Promise<Response> {
  return c.json(
    await inbox.read({ ...page, order: sorted, labels: withLabelsOf(c.get('caller'), parseLabels(label)) }),
  );
}
