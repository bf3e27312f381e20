import * as z from 'zod';
import type { JournalEntry } from '../../protocol/event.ts';
import { isJsonObject, type JsonObject } from '../../protocol/json.ts';
import type { Source } from '../../protocol/store.ts';

/** The agent of the journals that are conversations, and the `by` of their notes. */
export const CONVERSATIONS = 'conversations';

/** An item in the API's format. */
export type ConversationItem = JsonObject & { id: string };

const item = z.custom<ConversationItem>(value => isJsonObject(value) && typeof value.id === 'string');

/** A note in a conversation's journal. */
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
export type ConversationNote = z.infer<typeof note>;

const owner = z.object({ caller: z.object({ name: z.string(), labels: z.record(z.string(), z.string()) }) });

/** A conversation as its journal tells it. */
export type Conversation = {
  id: string;
  runId: string;
  /** ms since the epoch. */
  createdAt: number;
  /** The `seq` of its last entry. */
  seq: number;
  /** How often its journal was redacted, as in `RunRecord`. */
  redactions: number;
  caller: z.infer<typeof owner>['caller'];
  metadata: Readonly<Record<string, string>>;
  notes: readonly ConversationNote[];
  isDeleted: boolean;
};

/** The id of the conversation in this run's journal. */
export function conversationIdOf(runId: string): string {
  return runId.replace(/^run_/, 'conv_');
}

/** The run whose journal is the conversation; `undefined` for an id that this server did not make. */
export function runOfConversation(id: string): string | undefined {
  return /^conv_[A-Za-z0-9]+$/.test(id) ? id.replace(/^conv_/, 'run_') : undefined;
}

/** Reads a conversation from its journal; `undefined` for the journal of a run. */
export function readConversation(
  { runId, redactions }: Source,
  entries: readonly JournalEntry[],
): Conversation | undefined {
  const [first] = entries;
  if (first?.event.type !== 'run.started' || first.event.agent.name !== CONVERSATIONS) return undefined;
  const { caller } = owner.safeParse(first.event.launch?.request).data ?? {};
  if (caller === undefined) return undefined;
  const notes = entries.flatMap(({ event }) => {
    if (event.type !== 'run.noted' || event.by !== CONVERSATIONS) return [];
    return note.safeParse(event.note).data ?? [];
  });
  return {
    id: conversationIdOf(runId),
    runId,
    createdAt: first.event.at,
    seq: entries.at(-1)?.seq ?? 1,
    redactions,
    caller,
    metadata: notes.findLast(known => known.type === 'metadata')?.metadata ?? {},
    notes,
    isDeleted: notes.some(({ type }) => type === 'deleted'),
  };
}
