import type { JsonObject } from '../../protocol/json.ts';
import type { FoundResponse, VisibleResponses } from '../gateway/index.ts';
import { inputItemsOf, writeResponse } from '../responses/index.ts';
import type { Conversation, ConversationItem, ConversationNote } from './conversation-journal.ts';

type ResponseNote = Extract<ConversationNote, { type: 'response' }>;

/**
 * The response of a note; `undefined` if it was never begun, because the server stopped before, or may not be seen. A
 * deleted one is found: its span says so.
 */
async function findResponse(
  { runId, ticket }: ResponseNote,
  library: VisibleResponses,
): Promise<FoundResponse | undefined> {
  const run = await library.load(runId);
  const span = run?.spans.find(({ spec }) => spec.conversation?.ticket === ticket);
  return run && span && { run, span };
}

/**
 * All items of a conversation, in order: the added items, and the input and output of its responses. Nothing is
 * copied: a response's items are read from its run, so they are complete whenever its run is.
 */
export async function itemsOf(
  { notes }: Conversation,
  library: VisibleResponses,
): Promise<ConversationItem[]> {
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

/**
 * What a request follows: the newest response and the items that were added since. Where that response was deleted, or
 * an item that it has read, it cannot be continued: then all remaining items are the history.
 */
export async function contextOf(
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

/** The items that the notes add; `undefined` if they delete an item that they have not added. */
function addedIn(notes: readonly ConversationNote[]): ConversationItem[] | undefined {
  const added = notes.flatMap(note => (note.type === 'items' ? note.items : []));
  const deleted = notes.flatMap(note => (note.type === 'item_deleted' ? [note.id] : []));
  if (deleted.some(id => !added.some(item => item.id === id))) return undefined;
  return added.filter(({ id }) => !deleted.includes(id));
}
