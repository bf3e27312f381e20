import type { Item, MessageItem } from '../../protocol/item.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { isOutcome, textOf } from '../../protocol/message.ts';
import type { Store } from '../../protocol/store.ts';
import { filterText } from '../../text/text-filter.ts';
import { loadRun } from '../journal/load-run.ts';
import { readStart } from '../journal/read-journal.ts';
import { readStory } from './read-story.ts';
import type { StoryOptions, TurnPart } from './tell-story.ts';

/**
 * The messages of a run as readers see them: those of the user, and the texts of the agent, after the text filters and
 * without what a check or a person took back. Throws like `readStory`.
 */
export async function readConversation(store: Store, options: StoryOptions): Promise<MessageItem[]> {
  if ((await readStart(store, options.runId)) === undefined) return await readRestored(store, options);
  const messages: MessageItem[] = [];
  let answer: MessageItem[] = [];
  const put = (now: readonly MessageItem[]) => {
    const at = answer[0] === undefined ? messages.length : messages.indexOf(answer[0]);
    messages.splice(at, answer.length, ...now);
    answer = [...now];
  };
  for (const event of await readStory(store, options)) {
    switch (event.type) {
      case 'message':
        messages.push(...conversationIn(event.items));
        break;
      case 'turn.closed':
        answer = [];
        put(event.draft ? [] : event.parts.flatMap(shownIn));
        break;
      case 'answer.changed':
        put([say(event.text, answer[0]?.id)]);
        break;
      case 'answer.blocked':
        put([]);
        break;
      case 'answer.taken':
        answer = [];
        put([say(event.text)]);
        break;
      case 'note':
        if (event.event.type === 'turn.edited') put(conversationIn(event.event.items));
        if (event.event.type !== 'transcript.edited') break;
        messages.length = 0;
        answer = [];
        messages.push(...conversationIn(event.event.items));
    }
  }
  return messages;
}

/** Those of a run from another store, whose first entries are not here: as the model has them. */
async function readRestored(store: Store, { runId, filters = [] }: StoryOptions): Promise<MessageItem[]> {
  const { state, inherited = [] } = await loadRun(store, runId);
  const { transcript, inbox } = state.context;
  return conversationIn([...inherited, ...transcript, ...inbox]).map(item =>
    item.role === 'assistant' ? say(filterText(textOf(item), filters), item.id) : item,
  );
}

function conversationIn(items: readonly Item[]): MessageItem[] {
  return items.flatMap(item => {
    if (item.type !== 'message' || isOutcome(item)) return [];
    if (item.role !== 'user' && item.role !== 'assistant') return [];
    const { opaque: _, ...message } = item;
    return [message];
  });
}

/** The words of a refusal follow the text. Filtered text has no annotations. */
function shownIn(part: TurnPart): MessageItem[] {
  if (part.kind !== 'text' || part.part === null) return [];
  const { text, refusal, items } = part;
  const words = [text, refusal].filter(Boolean).join('\n\n');
  if (words === '') return [];
  const isAsWritten = words === items.map(textOf).join('');
  return isAsWritten ? conversationIn(items) : [say(words, items[0]?.id)];
}

function say(text: string, id?: string): MessageItem {
  return { type: 'message', role: 'assistant', content: [{ type: 'text', text }], ...omitUndefined({ id }) };
}
