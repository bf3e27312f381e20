import type { Hono } from 'hono';
import * as z from 'zod';
import { type Caller, sees } from '../../access/caller.ts';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { Host } from '../../engine/host/host.ts';
import { appendEvidence } from '../../engine/journal/evidence.ts';
import { FoldCache } from '../../engine/journal/fold-cache.ts';
import type { JournalEntry, RunEvent } from '../../protocol/event.ts';
import { isJsonObject, type JsonObject, omitNull, toJson } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import type { RequestConversation } from '../gateway/gateway-service.ts';
import { resolveInput } from '../gateway/plan/input-items.ts';
import { References } from '../gateway/plan/references.ts';
import type { FoundResponse, ResponseLibrary, VisibleResponses } from '../gateway/runs/response-library.ts';
import type { RequestKey } from '../gateway/runs/response-spec.ts';
import { describeIssue, invalid, notFound, ResponsesError } from '../openai-error.ts';
import { readAnyBody } from '../read-body.ts';
import { readItems, readWireItems, type WireItem } from '../responses/item-reader.ts';
import { writeResponse } from '../responses/response-writer.ts';
import { inputItemsOf, pageOf, wireInputs } from '../responses/wire-input.ts';
import type { RunsEnv } from '../runs-env.ts';

type JoiningResponse = Omit<Extract<ConversationNote, { type: 'response' }>, 'type'>;

type ConversationsOptions = { store: Store; host: Host; library: ResponseLibrary };

/**
 * The conversations of `/v1/conversations`.
 *
 * N1 A conversation is a thread of its caller. It has its own journal: the run of an agent without a model, which has no
 *    place in the thread, and is cancelled immediately. Its notes record additions and deletions. No process drives it.
 * N2 A response is noted before it begins, and its items are read from its own run. So each item appears exactly
 *    once, even if the server is killed.
 * N3 A response is noted only if the conversation has not changed since its request was planned (`RequestConversation`). Of two
 *    concurrent requests, the second is refused.
 */
export class Conversations {
  readonly #options: ConversationsOptions;
  readonly #known = new FoldCache<ConversationFold>();

  constructor(options: ConversationsOptions) {
    this.#options = options;
  }

  async create(value: unknown, caller: Caller): Promise<Conversation> {
    const { store, host } = this.#options;
    const { items, metadata = {} } = omitNull(parse(creation, value ?? {}));
    const added = await this.#readItems(readWireItems(items ?? [], 'items'), caller, []);
    const { name, labels } = caller;
    const runId = host.newId('run');
    const request = toJson({ caller: { name, labels } });
    const agent = createAgent({ name: CONVERSATIONS, model: scripted([]), store, host });
    const thread = conversationIdOf(runId);
    const start = { runId, thread, placeless: true, paused: true, labels, launch: { request } } as const;
    const run = await agent.start([], start);
    await run.cancel({ by: CONVERSATIONS, reason: 'A conversation of the API. It is not driven.' });
    await this.#append(runId, { type: 'metadata', metadata });
    if (added.length > 0) await this.#append(runId, { type: 'items', items: added });
    return await this.find(conversationIdOf(runId), caller);
  }

  async find(id: string, caller: Caller): Promise<Conversation> {
    const runId = runOfConversation(id);
    const { store } = this.#options;
    const found = runId === undefined ? undefined : await this.#known.load(store, runId, readConversation);
    if (found !== undefined && !found.fold.isDeleted && sees(caller, found.fold.caller))
      return { ...found.fold, redactions: found.record.redactions };
    throw notFound(`Conversation with id '${id}' not found.`, 'conversation_not_found', 'conversation');
  }

  async update(id: string, value: unknown, caller: Caller): Promise<Conversation> {
    const metadata = parse(update, value).metadata ?? {};
    const { runId } = await this.find(id, caller);
    await this.#append(runId, { type: 'metadata', metadata });
    return await this.find(id, caller);
  }

  /** Its responses stay. Throws like `find`. */
  async delete(id: string, caller: Caller): Promise<void> {
    const { runId } = await this.find(id, caller);
    await this.#append(runId, { type: 'deleted' });
  }

  async items(id: string, caller: Caller): Promise<ConversationItem[]> {
    return await itemsOf(await this.find(id, caller), this.#options.library.seenBy(caller));
  }

  async add(id: string, value: unknown, caller: Caller): Promise<ConversationItem[]> {
    const wire = readWireItems(parse(addition, value).items, 'items');
    const { runId } = await this.find(id, caller);
    const items = await this.#readItems(wire, caller, await this.items(id, caller));
    if (items.length > 0) await this.#append(runId, { type: 'items', items });
    return items;
  }

  async item(id: string, itemId: string, caller: Caller): Promise<ConversationItem> {
    const found = (await this.items(id, caller)).find(item => item.id === itemId);
    if (found !== undefined) return found;
    throw notFound(`Item with id '${itemId}' not found in conversation '${id}'.`, 'item_not_found');
  }

  async deleteItem(id: string, itemId: string, caller: Caller): Promise<Conversation> {
    await this.item(id, itemId, caller);
    const { runId } = await this.find(id, caller);
    await this.#append(runId, { type: 'item_deleted', id: itemId });
    return await this.find(id, caller);
  }

  open(id: string, caller: Caller): RequestConversation {
    const read = async () => {
      const conversation = await this.find(id, caller);
      const { history, ...context } = await contextOf(conversation, this.#options.library.seenBy(caller));
      if (context.previous?.span.to === null) throw conversationLocked();
      const join = (response: JoiningResponse) => this.#join(conversation, response);
      return { ...context, history: readItems(history, 'input'), join };
    };
    const runsWithKey = async ({ key }: RequestKey) => {
      const { notes } = await this.find(id, caller);
      return notes.flatMap(note => (note.type === 'response' && note.key === key ? [note.runId] : []));
    };
    return { id, read, runsWithKey };
  }

  async #join(
    { runId: journal, seq: after, redactions }: Conversation,
    response: JoiningResponse,
  ): Promise<void> {
    const { store, host } = this.#options;
    const note = toJson({ type: 'response', ...response } satisfies ConversationNote);
    const event: RunEvent = { type: 'run.noted', at: host.now(), by: CONVERSATIONS, note };
    const result = await store.append(journal, { after, redactions, input: true }, [event], {
      status: 'cancelled',
    });
    if (result.type !== 'appended') throw conversationLocked();
  }

  async #append(runId: string, note: ConversationNote): Promise<void> {
    const { store, host } = this.#options;
    const event = { type: 'run.noted', at: host.now(), by: CONVERSATIONS, note: toJson(note) } as const;
    await appendEvidence(store, runId, event);
  }

  /** Checks items as those of a request are, and gives each an id of its own. */
  async #readItems(
    wire: readonly WireItem[],
    caller: Caller,
    known: readonly ConversationItem[],
  ): Promise<ConversationItem[]> {
    const { host, library } = this.#options;
    const read = readItems(wire, 'items');
    const reference = read.find(({ type }) => type === 'item_reference');
    if (reference?.type === 'item_reference')
      throw invalid(`${reference.at}.type`, 'unsupported_input_item', 'Add the item instead of a reference.');
    await resolveInput(read, new References(library.seenBy(caller), undefined, read));
    const taken = new Set(known.map(({ id }) => id));
    return wire.map((item, at) => {
      const sent = read[at];
      const { type = 'message' } = item;
      const [listed] = sent?.type === 'sent' && type === 'message' ? wireInputs(sent.items, {}) : [];
      const prefix = PREFIXES[String(type)] ?? 'item';
      const id = typeof item.id === 'string' && !taken.has(item.id) ? item.id : host.newId(prefix);
      taken.add(id);
      const status = WITH_STATUS.includes(String(type)) ? { status: 'completed' } : {};
      return { ...status, ...(listed ?? item), id };
    });
  }
}

function conversationObject({ id, createdAt, metadata }: Conversation): JsonObject {
  return { id, object: 'conversation', created_at: Math.floor(createdAt / 1000), metadata: { ...metadata } };
}

function conversationLocked(): ResponsesError {
  return new ResponsesError(
    'Another request is using this conversation. Send this one again when that one has ended.',
    { status: 409, code: 'conversation_locked', param: 'conversation' },
  );
}

const WITH_STATUS = ['function_call', 'function_call_output', 'custom_tool_call_output'];

const PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  function_call_output: 'fco',
  mcp_call: 'mcp',
  compaction: 'cmp',
};

const MOST_ITEMS = 20;

const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine(pairs => Object.keys(pairs).length <= 16, 'expected at most 16 pairs');
const items = z.array(z.unknown()).max(MOST_ITEMS, `expected at most ${MOST_ITEMS} items`);

const creation = z.object({ items: z.nullish(items), metadata: z.nullish(metadata) });
const update = z.object({ metadata: z.nullable(metadata) });
const addition = z.object({ items });

function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  if (!isJsonObject(value))
    throw invalid(null, 'invalid_value', 'The body is not valid: expected an object.');
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw describeIssue(parsed.error.issues[0], '');
}

const CONVERSATIONS = 'conversations';

type ConversationItem = JsonObject & { id: string };

const item = z.custom<ConversationItem>(value => isJsonObject(value) && typeof value.id === 'string');

const note = z.discriminatedUnion('type', [
  z.object({ type: z.literal('metadata'), metadata: z.record(z.string(), z.string()) }),
  z.object({ type: z.literal('items'), items: z.array(item) }),
  z.object({ type: z.literal('item_deleted'), id: z.string() }),
  /** A response that is about to begin: the one of this run whose spec has this ticket. `key`: see `RequestKey`. */
  z.object({
    type: z.literal('response'),
    runId: z.string(),
    ticket: z.string(),
    key: z.exactOptional(z.string()),
  }),
  z.object({ type: z.literal('deleted') }),
]);
type ConversationNote = z.infer<typeof note>;

const owner = z.object({ caller: z.object({ name: z.string(), labels: z.record(z.string(), z.string()) }) });

/** As its journal has it. */
type ConversationFold = {
  id: string;
  runId: string;
  createdAt: number;
  seq: number;
  caller: z.infer<typeof owner>['caller'];
  metadata: Readonly<Record<string, string>>;
  notes: readonly ConversationNote[];
  isDeleted: boolean;
};

type Conversation = ConversationFold & { redactions: number };

function conversationIdOf(runId: string): string {
  return runId.replace(/^run_/, 'conv_');
}

function runOfConversation(id: string): string | undefined {
  return /^conv_[A-Za-z0-9]+$/.test(id) ? id.replace(/^conv_/, 'run_') : undefined;
}

function readConversation(
  before: ConversationFold | undefined,
  entries: readonly JournalEntry[],
): ConversationFold | undefined {
  const begun = before ?? beginConversation(entries);
  if (begun === undefined) return undefined;
  const added = entries.flatMap(({ event }) => {
    if (event.type !== 'run.noted' || event.by !== CONVERSATIONS) return [];
    return note.safeParse(event.note).data ?? [];
  });
  return {
    ...begun,
    seq: entries.at(-1)?.seq ?? begun.seq,
    metadata: added.findLast(known => known.type === 'metadata')?.metadata ?? begun.metadata,
    notes: [...begun.notes, ...added],
    isDeleted: begun.isDeleted || added.some(({ type }) => type === 'deleted'),
  };
}

function beginConversation([first]: readonly JournalEntry[]): ConversationFold | undefined {
  if (first?.event.type !== 'run.started' || first.event.agent.name !== CONVERSATIONS) return undefined;
  const { runId, at: createdAt } = first.event;
  const { caller } = owner.safeParse(first.event.launch?.request).data ?? {};
  if (caller === undefined) return undefined;
  const id = conversationIdOf(runId);
  return { id, runId, createdAt, seq: 1, caller, metadata: {}, notes: [], isDeleted: false };
}

type ResponseNote = Extract<ConversationNote, { type: 'response' }>;

/** `undefined` if it was never begun, because the server stopped before, or may not be seen. A deleted one is found. */
async function findResponse(
  { runId, ticket }: ResponseNote,
  library: VisibleResponses,
): Promise<FoundResponse | undefined> {
  const run = await library.load(runId);
  const span = run?.spans.find(({ spec }) => spec.conversation?.ticket === ticket);
  return run && span && { run, span };
}

async function itemsOf({ notes }: Conversation, library: VisibleResponses): Promise<ConversationItem[]> {
  const items: ConversationItem[] = [];
  const deleted = new Set<string>();
  for (const note of notes) {
    if (note.type === 'items') items.push(...note.items);
    if (note.type === 'item_deleted') deleted.add(note.id);
    const found = note.type === 'response' ? await findResponse(note, library) : undefined;
    if (found !== undefined && !found.span.deleted) items.push(...itemsOfResponse(found));
  }
  return items.filter(({ id }) => !deleted.has(id));
}

function itemsOfResponse(found: FoundResponse): ConversationItem[] {
  const given = found.span.spec.conversation?.given ?? 0;
  const items: JsonObject[] = [...inputItemsOf(found, { from: given }), ...writeResponse(found).output];
  return items.map(item => ({ ...item, id: String(item.id) }));
}

/** The newest response and the items since; all remaining items if a response or item was deleted. */
async function contextOf(
  conversation: Conversation,
  library: VisibleResponses,
): Promise<{ previous?: FoundResponse; history: readonly ConversationItem[] }> {
  const { notes } = conversation;
  for (let at = notes.length - 1; at >= 0; at -= 1) {
    const note = notes[at];
    const previous = note?.type === 'response' ? await findResponse(note, library) : undefined;
    if (previous === undefined) continue;
    const history = addedIn(notes.slice(at + 1));
    if (previous.span.deleted || history === undefined) break;
    return { previous, history };
  }
  return { history: await itemsOf(conversation, library) };
}

function addedIn(notes: readonly ConversationNote[]): ConversationItem[] | undefined {
  const added = notes.flatMap(note => (note.type === 'items' ? note.items : []));
  const deleted = notes.flatMap(note => (note.type === 'item_deleted' ? [note.id] : []));
  if (deleted.some(id => !added.some(item => item.id === id))) return undefined;
  return added.filter(({ id }) => !deleted.includes(id));
}

export function addConversationRoutes(app: Hono<RunsEnv>, conversations: Conversations): void {
  app.post('/v1/conversations', async c => {
    const isEmpty = c.req.header('content-type') === undefined;
    const value = isEmpty ? undefined : await readAnyBody(c);
    return c.json(conversationObject(await conversations.create(value, c.get('caller'))));
  });
  app.get('/v1/conversations/:id', async c =>
    c.json(conversationObject(await conversations.find(c.req.param('id'), c.get('caller')))),
  );
  app.post('/v1/conversations/:id', async c => {
    const value = await readAnyBody(c);
    const updated = await conversations.update(c.req.param('id'), value, c.get('caller'));
    return c.json(conversationObject(updated));
  });
  app.delete('/v1/conversations/:id', async c => {
    const id = c.req.param('id');
    await conversations.delete(id, c.get('caller'));
    return c.json({ id, object: 'conversation.deleted', deleted: true });
  });
  app.get('/v1/conversations/:id/items', async c => {
    const items = await conversations.items(c.req.param('id'), c.get('caller'));
    return c.json(pageOf(items, c.req.query()));
  });
  app.post('/v1/conversations/:id/items', async c => {
    const value = await readAnyBody(c);
    const items = await conversations.add(c.req.param('id'), value, c.get('caller'));
    return c.json(pageOf(items, { order: 'asc', limit: '100' }));
  });
  app.get('/v1/conversations/:id/items/:item', async c =>
    c.json(await conversations.item(c.req.param('id'), c.req.param('item'), c.get('caller'))),
  );
  app.delete('/v1/conversations/:id/items/:item', async c => {
    const { id, item } = c.req.param();
    return c.json(conversationObject(await conversations.deleteItem(id, item, c.get('caller'))));
  });
}
