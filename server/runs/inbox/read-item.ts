import type { Context } from 'hono';
import * as z from 'zod';
import { type Caller, seesRun } from '../../../access/caller.ts';
import { readPages, readUnredacted } from '../../../engine/journal/read-journal.ts';
import { describeOutput } from '../../../protocol/content/read-content.ts';
import { EngineError } from '../../../protocol/error.ts';
import { callsOf, type JournalEntry } from '../../../protocol/event.ts';
import { canonicalJson, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { textOf } from '../../../protocol/message.ts';
import { callIdOf, type Excerpt, type InboxItem, type OpenedItem } from '../../../protocol/run-view.ts';
import type { ListFilter, RunRecord } from '../../../protocol/store.ts';
import { REGRESS } from '../../../regress/played-run.ts';
import { ApiError } from '../../error-envelope.ts';
import { optional } from '../../fields.ts';
import type { RunsEnv } from '../../runs-env.ts';
import type { RouteParts } from '../route-parts.ts';
import { inboxItemSchema } from './read-inbox.ts';

/** How many runs of the thread, and of the agent, are read beside the run itself, and how many of their last entries. */
const MOST_RUNS = 20;
const MOST_ENTRIES = 500;

/** How many pages of journals one request reads, each of up to 256 entries and 256 K characters. */
const MOST_PAGES = 100;

const MOST_BEFORE = 6;
const MOST_PAST = 10;
const LONGEST = 500;

const excerpt = {
  seq: z.number().int(),
  at: z.number().meta({ description: 'ms since the epoch' }),
  text: z.string().max(LONGEST),
  isCut: optional(z.literal(true), 'There is more than the text.'),
};
const pastCall = { ...excerpt, runId: z.string(), callId: z.string() };

export const openedItemSchema = z.object({
  item: inboxItemSchema,
  before: z
    .array(
      z.object({
        ...excerpt,
        type: z.enum(['user', 'agent', 'tool']),
        name: optional(z.string(), 'The name of the person, or of the tool.'),
      }),
    )
    .meta({ description: 'The last 6 messages and results of the run before the call, oldest first.' }),
  equal: z.array(z.object({ ...pastCall, isError: z.boolean() })).meta({
    description:
      'The latest 10 results of calls of the tool with an equal input, newest first: of the run, of its thread, and of the latest 20 runs of the agent.',
  }),
  decisions: z
    .array(
      z.object({
        ...pastCall,
        type: z.enum(['approve', 'reject', 'answer']),
        by: z.exactOptional(z.string()),
        input: optional(z.custom<JsonValue>(), 'The input of the call, if it has at most 500 characters.'),
      }),
    )
    .meta({
      description:
        'The latest 10 decisions on calls of the tool in these runs, newest first. The text is the reason.',
    }),
}) satisfies z.ZodType<OpenedItem>;

/** Reads only runs that the caller sees, and of each so many of the last entries. */
export async function readItem(
  c: Context<RunsEnv>,
  record: RunRecord,
  callId: string,
  parts: RouteParts,
): Promise<Response> {
  const items = await parts.inbox.itemsOf(record);
  const item = items.find(({ call }) => callIdOf(call) === callId);
  if (item === undefined)
    throw new ApiError('not-found', 'The run does not wait for this. GET /inbox lists what is open.');
  const others = 'name' in item.call ? await listOthers(c.get('caller'), record, parts) : [];
  const runs = [record, ...others];
  const ids = new Set(runs.map(({ runId }) => runId));
  const budget = { pages: MOST_PAGES };
  const found: Found[] = [];
  for (const { runId, forkOf } of runs) {
    if (budget.pages <= 0) break;
    const its = await lookInto(runId, item, budget, parts);
    // What a fork has copied happened once, in its original.
    const isOwn = ({ seq }: Excerpt): boolean =>
      forkOf === undefined || seq > forkOf.at || !ids.has(forkOf.runId);
    found.push({ ...its, equal: its.equal.filter(isOwn), decisions: its.decisions.filter(isOwn) });
  }
  return c.json({
    item,
    before: found[0]?.before.slice(-MOST_BEFORE) ?? [],
    equal: newest(found.flatMap(({ equal }) => equal)),
    decisions: newest(found.flatMap(({ decisions }) => decisions)),
  } satisfies OpenedItem);
}

/** The other runs of its thread and the latest of its agent, newest first. What `regress` played has not happened. */
async function listOthers(caller: Caller, record: RunRecord, { store }: RouteParts): Promise<RunRecord[]> {
  const { agent, thread, labels } = record;
  const list = async (filter: ListFilter): Promise<RunRecord[]> =>
    (await store.list({ ...filter, limit: MOST_RUNS, onDamaged() {} })).runs;
  const listed = await Promise.all([
    thread === undefined ? [] : list({ thread: { id: thread, labels } }),
    list({ agent, labels: caller.labels }),
  ]);
  const others = new Map(listed.flat().map(other => [other.runId, other]));
  return [...others.values()]
    .filter(other => other.runId !== record.runId && seesRun(caller, other.labels))
    .filter(other => !Object.hasOwn(other.labels, REGRESS))
    .sort((one, other) => other.createdAt - one.createdAt);
}

type Found = Omit<OpenedItem, 'item'>;

/** Finds nothing in a journal that cannot be read, or is deleted meanwhile. */
async function lookInto(
  runId: string,
  item: InboxItem,
  budget: { pages: number },
  { store, agents }: RouteParts,
): Promise<Found> {
  try {
    return await readUnredacted(store, runId, async span => {
      const look = new Look(runId, item, text => agents.showText(item.agent, text));
      for await (const page of readPages(store, runId, Math.max(0, (span.last ?? 0) - MOST_ENTRIES), span)) {
        for (const entry of page) look.take(entry);
        budget.pages -= 1;
        if (budget.pages <= 0) break;
      }
      return look.found;
    });
  } catch (error) {
    if (error instanceof EngineError) return { before: [], equal: [], decisions: [] };
    throw error;
  }
}

/** Reads the entries of one run for what was there before an item, and for what is like it. */
class Look {
  readonly found: Found = { before: [], equal: [], decisions: [] };
  readonly #runId: string;
  readonly #item: InboxItem;
  readonly #showText: (text: string) => string;
  readonly #own: string | undefined;
  readonly #calls = new Map<string, { name: string; input: JsonValue }>();
  #isBefore = true;

  constructor(runId: string, item: InboxItem, showText: (text: string) => string) {
    this.#runId = runId;
    this.#item = item;
    this.#showText = showText;
    this.#own = 'name' in item.call ? canonicalJson(item.call.input) : undefined;
  }

  take({ seq, event }: JournalEntry): void {
    const { call } = this.#item;
    const cut = (text: string): Excerpt => cutExcerpt({ seq, at: event.at, text });
    const tell = (type: 'user' | 'agent' | 'tool', name: string | undefined, text: string): void => {
      if (this.#isBefore && text !== '')
        this.found.before.push({ ...cut(text), type, ...omitUndefined({ name }) });
    };
    if (event.type === 'turn.completed' && !('answer' in call && event.text === call.answer))
      tell('agent', undefined, this.#showText(event.text));
    for (const { callId, name, input } of callsOf(event)) {
      this.#calls.set(callId, { name, input });
      if (this.#isOwn(callId)) this.#isBefore = false;
    }
    if (event.type === 'run.started' || event.type === 'message.received') {
      const items = event.type === 'run.started' ? event.input : event.items;
      tell('user', event.by, items.map(textOf).filter(Boolean).join(' '));
    } else if (event.type === 'approval.decided') {
      this.#takeDecision(event, cut);
    } else if (event.type === 'tool.settled' || event.type === 'result.received') {
      const { name, input } = this.#calls.get(event.callId) ?? {};
      if (name === undefined || ('played' in event && event.played !== undefined)) return;
      const text = describeOutput(event.output);
      tell('tool', name, text);
      if ('name' in call && name === call.name && !this.#isOwn(event.callId) && this.#isEqual(input))
        this.found.equal.push({ ...cut(text), ...this.#placeOf(event.callId), isError: event.isError });
    }
  }

  #takeDecision(
    { callId, decision, by }: Extract<JournalEntry['event'], { type: 'approval.decided' }>,
    cut: (text: string) => Excerpt,
  ): void {
    const decided = this.#calls.get(callId);
    if (decided === undefined) return;
    if ('input' in decision && decision.input !== undefined) decided.input = decision.input;
    if (!('name' in this.#item.call) || decided.name !== this.#item.call.name) return;
    const { type } = decision;
    const input = JSON.stringify(decided.input).length <= LONGEST ? decided.input : undefined;
    const reason = type === 'reject' ? (decision.reason ?? '') : '';
    this.found.decisions.push({
      ...cut(reason),
      ...this.#placeOf(callId),
      type,
      ...omitUndefined({ by, input }),
    });
  }

  #placeOf(callId: string) {
    return { runId: this.#runId, callId };
  }

  #isOwn(callId: string): boolean {
    return this.#runId === this.#item.runId && callId === callIdOf(this.#item.call);
  }

  #isEqual(input: JsonValue | undefined): boolean {
    return input !== undefined && canonicalJson(input) === this.#own;
  }
}

function cutExcerpt({ text, ...place }: Excerpt): Excerpt {
  if (text.length <= LONGEST) return { ...place, text };
  return { ...place, text: text.slice(0, LONGEST).toWellFormed(), isCut: true };
}

function newest<Past extends Excerpt>(all: readonly Past[]): Past[] {
  return all.toSorted((one, other) => other.at - one.at).slice(0, MOST_PAST);
}
