import * as z from 'zod';
import { type Caller, sees } from '../../access/caller.ts';
import { createAgent } from '../../agent/agent.ts';
import type { Host } from '../../engine/host/host.ts';
import { appendEvidence } from '../../engine/journal/evidence.ts';
import { readJournal } from '../../engine/journal/read-journal.ts';
import type { ModelAdapter } from '../../protocol/adapter.ts';
import { EngineError } from '../../protocol/error.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { isJsonObject, type JsonObject, toJson } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import {
  References,
  type RequestConversation,
  type RequestKey,
  type ResponseLibrary,
  resolveInput,
} from '../gateway/index.ts';
import { describeIssue, invalid, ResponsesError } from '../openai-error.ts';
import {
  type RequestConversations,
  readItems,
  readWireItems,
  type WireItem,
  wireInputs,
} from '../responses/index.ts';
import { contextOf, itemsOf } from './conversation-items.ts';
import {
  CONVERSATIONS,
  type Conversation,
  type ConversationItem,
  type ConversationNote,
  conversationIdOf,
  readConversation,
  runOfConversation,
} from './conversation-journal.ts';

type JoiningResponse = Omit<Extract<ConversationNote, { type: 'response' }>, 'type'>;

type ConversationsOptions = { store: Store; host: Host; library: ResponseLibrary };

/**
 * The conversations of `/v1/conversations`.
 *
 * N1 A conversation has its own journal: the run of an agent without a model, cancelled immediately. Its notes record
 *    additions and deletions. No process drives it.
 * N2 A response is noted before it begins, and its items are read from its own run. So each item appears exactly
 *    once, even if the server is killed.
 * N3 A response is noted only if the conversation has not changed since its request was planned (`RequestConversation`). Of two
 *    concurrent requests, the second is refused.
 */
export class Conversations implements RequestConversations {
  readonly #options: ConversationsOptions;

  constructor(options: ConversationsOptions) {
    this.#options = options;
  }

  /** Creates a conversation from a request body. Throws a `ResponsesError` for an invalid body. */
  async create(value: unknown, caller: Caller): Promise<Conversation> {
    const { store, host } = this.#options;
    const { items, metadata } = readCreation(value);
    const added = await this.#readItems(items, caller, []);
    const { name, labels } = caller;
    const runId = host.newId('run');
    const request = toJson({ caller: { name, labels } });
    const agent = createAgent({ name: CONVERSATIONS, model: NO_MODEL, store, host });
    const run = await agent.start([], { runId, paused: true, labels, launch: { request } });
    await run.cancel({ by: CONVERSATIONS, reason: 'A conversation of the API. It is not driven.' });
    await this.#append(runId, { type: 'metadata', metadata });
    if (added.length > 0) await this.#append(runId, { type: 'items', items: added });
    return await this.find(conversationIdOf(runId), caller);
  }

  /** The conversation with this id. Throws a `ResponsesError` with status 404. */
  async find(id: string, caller: Caller): Promise<Conversation> {
    const runId = runOfConversation(id);
    const { store } = this.#options;
    const record = runId === undefined ? undefined : await store.get(runId);
    const found = record && readConversation(record, await readJournal(store, record.runId));
    if (found !== undefined && !found.isDeleted && sees(caller, found.caller)) return found;
    throw new ResponsesError(`Conversation with id '${id}' not found.`, {
      status: 404,
      code: 'conversation_not_found',
      param: 'conversation',
    });
  }

  /** Replaces the metadata. Throws like `find`, and for an invalid body. */
  async update(id: string, value: unknown, caller: Caller): Promise<Conversation> {
    const metadata = readUpdate(value);
    const { runId } = await this.find(id, caller);
    await this.#append(runId, { type: 'metadata', metadata });
    return await this.find(id, caller);
  }

  /** Hides the conversation. Its responses stay. Throws like `find`. */
  async delete(id: string, caller: Caller): Promise<void> {
    const { runId } = await this.find(id, caller);
    await this.#append(runId, { type: 'deleted' });
  }

  /** All items, oldest first. Throws like `find`. */
  async items(id: string, caller: Caller): Promise<ConversationItem[]> {
    return await itemsOf(await this.find(id, caller), this.#options.library.seenBy(caller));
  }

  /** Adds items from a request body, and returns them. Throws like `find`, and for an invalid item. */
  async add(id: string, value: unknown, caller: Caller): Promise<ConversationItem[]> {
    const wire = readAddition(value);
    const { runId } = await this.find(id, caller);
    const items = await this.#readItems(wire, caller, await this.items(id, caller));
    if (items.length > 0) await this.#append(runId, { type: 'items', items });
    return items;
  }

  /** One item. Throws like `find`, and a `ResponsesError` with status 404 for an unknown item. */
  async item(id: string, itemId: string, caller: Caller): Promise<ConversationItem> {
    const found = (await this.items(id, caller)).find(item => item.id === itemId);
    if (found !== undefined) return found;
    throw new ResponsesError(`Item with id '${itemId}' not found in conversation '${id}'.`, {
      status: 404,
      code: 'item_not_found',
    });
  }

  /** Removes an item, and returns the conversation. Throws like `item`. */
  async deleteItem(id: string, itemId: string, caller: Caller): Promise<Conversation> {
    await this.item(id, itemId, caller);
    const { runId } = await this.find(id, caller);
    await this.#append(runId, { type: 'item_deleted', id: itemId });
    return await this.find(id, caller);
  }

  /** The conversation of a request: see `RequestConversation`. */
  open(id: string, caller: Caller): RequestConversation {
    const read = async () => {
      const conversation = await this.find(id, caller);
      const { history, ...context } = await contextOf(conversation, this.#options.library.seenBy(caller));
      if (context.previous?.span.to === null) throw conversationLocked();
      const join = (response: JoiningResponse) => this.#join(conversation, response);
      return { ...context, history: readItems(history, 'input'), join };
    };
    return { id, read };
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

  /** The runs of the conversation's responses to requests with this key. Throws like `find`. */
  async runsWithKey(id: string, { key }: RequestKey, caller: Caller): Promise<string[]> {
    const { notes } = await this.find(id, caller);
    return notes.flatMap(note => (note.type === 'response' && note.key === key ? [note.runId] : []));
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
      const [listed] = sent?.type === 'sent' && isMessage(item) ? wireInputs(sent.items, {}) : [];
      const id = typeof item.id === 'string' && !taken.has(item.id) ? item.id : host.newId(prefixOf(item));
      taken.add(id);
      return { ...STATUS[String(item.type)], ...(listed ?? item), id };
    });
  }
}

/** The conversation as the API shows it. */
export function conversationObject({ id, createdAt, metadata }: Conversation): JsonObject {
  return { id, object: 'conversation', created_at: Math.floor(createdAt / 1000), metadata: { ...metadata } };
}

/** The error for a request while another one uses the conversation. */
function conversationLocked(): ResponsesError {
  return new ResponsesError(
    'Another request is using this conversation. Send this one again when that one has ended.',
    { status: 409, code: 'conversation_locked', param: 'conversation' },
  );
}

/** The status that listed items have. */
const STATUS: Readonly<Record<string, JsonObject>> = {
  function_call: { status: 'completed' },
  function_call_output: { status: 'completed' },
  custom_tool_call_output: { status: 'completed' },
};

const PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg',
  reasoning: 'rs',
  function_call: 'fc',
  function_call_output: 'fco',
  mcp_call: 'mcp',
  compaction: 'cmp',
};

function isMessage({ type }: WireItem): boolean {
  return type === undefined || type === 'message';
}

function prefixOf({ type = 'message' }: WireItem): string {
  return PREFIXES[String(type)] ?? 'item';
}

/** A conversation's journal has no model: nothing is ever asked of it. */
const NO_MODEL: ModelAdapter = {
  provider: 'none',
  model: 'none',
  capabilities: {
    streaming: false,
    parallelToolCalls: false,
    reasoningReplay: false,
    serverTools: false,
    structuredOutput: 'instructions',
    continuation: false,
  },
  generate: () => Promise.reject(noModel()),
  stream() {
    throw noModel();
  },
};

function noModel(): EngineError {
  return new EngineError('model-missing', 'A conversation has no model.');
}

/** The most items that one request adds, as at OpenAI. */
const MOST_ITEMS = 20;

const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine(pairs => Object.keys(pairs).length <= 16, 'expected at most 16 pairs');
const items = z.array(z.unknown()).max(MOST_ITEMS, `expected at most ${MOST_ITEMS} items`);

const creation = z.object({ items: z.nullish(items), metadata: z.nullish(metadata) });
const update = z.object({ metadata: z.nullable(metadata) });
const addition = z.object({ items });

/** Validates the body of `POST /v1/conversations`, which may be empty. Throws a `ResponsesError`. */
function readCreation(value: unknown): {
  items: readonly WireItem[];
  metadata: Record<string, string>;
} {
  const body = parse(creation, value ?? {});
  return { items: readWireItems(body.items ?? [], 'items'), metadata: body.metadata ?? {} };
}

/** Validates the new metadata of a conversation. Throws a `ResponsesError`. */
function readUpdate(value: unknown): Record<string, string> {
  return parse(update, value).metadata ?? {};
}

/** Validates items to add. Throws a `ResponsesError`. */
function readAddition(value: unknown): readonly WireItem[] {
  return readWireItems(parse(addition, value).items, 'items');
}

function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  if (!isJsonObject(value))
    throw invalid(null, 'invalid_value', 'The body is not valid: expected an object.');
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw describeIssue(parsed.error.issues[0], '');
}
