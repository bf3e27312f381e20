import type { Item } from '../../../protocol/item.ts';
import { textOf } from '../../../protocol/message.ts';
import type { RunView } from '../data/request.ts';
import { formatOutput } from '../render/format.ts';
import type { RunModel } from './run-model.ts';
import type { Block } from './run-story.ts';

/** The number of blocks up to an entry. */
export function countBlocks(blocks: readonly Block[], at: number): number {
  let [low, high] = [0, blocks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((blocks[middle]?.seq ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Returns the text of a reply as readers saw it at an entry, and the model's original text if a finisher changed it.
 */
export function replyText(
  block: Extract<Block, { kind: 'reply' }>,
  model: RunModel,
): { text: string; before: string | null } {
  const own = filteredText(block, model);
  if (block.checked === null || block.checked.seq > model.at.value) return { text: own, before: null };
  return { text: block.checked.text, before: block.checked.text === own ? null : own };
}

/** Filters apply to what readers get; until the server's view has that text, the streamed text or `…` is shown. */
function filteredText({ item, attempt, seq }: Extract<Block, { kind: 'reply' }>, model: RunModel): string {
  const view = model.view.value;
  const known = item.id === undefined ? undefined : shownItems(view).get(item.id);
  if (known !== undefined) return textOf(known);
  return model.streamed.get(attempt) ?? (view !== null && view.seq >= seq ? textOf(item) : '…');
}

const shown = new WeakMap<RunView, ReadonlyMap<string, Item>>();

function shownItems(view: RunView | null): ReadonlyMap<string, Item> {
  if (view === null) return new Map();
  const known = shown.get(view);
  if (known !== undefined) return known;
  const items = new Map(
    view.transcript.flatMap(item => (item.id === undefined ? [] : [[item.id, item] as const])),
  );
  shown.set(view, items);
  return items;
}

/** The ids of messages that no model call read. */
export function unreadIds(view: RunView | null): ReadonlySet<string> {
  const unread = view?.settled?.status === 'finished' ? view.settled.unread : [];
  return new Set(unread.flatMap(({ id }) => (id === undefined ? [] : [id])));
}

/** The transcript items of the runs that this run continues. */
export function inheritedBlocks(model: RunModel): { key: string; who: string; text: string }[] {
  const view = model.view.value;
  const first = model.entry(1);
  if (view === null || first?.type !== 'run.started' || first.continues === undefined) return [];
  const own = view.transcript.findIndex(item => item.id !== undefined && item.id === first.input[0]?.id);
  return view.transcript.slice(0, Math.max(0, own)).flatMap((item, index) => {
    const key = `older ${index}`;
    if (item.type === 'message')
      return [{ key, who: item.role === 'assistant' ? 'agent' : item.role, text: textOf(item) }];
    if (item.type === 'tool_call') return [{ key, who: `call of ${item.name}`, text: item.arguments }];
    if (item.type === 'tool_result') return [{ key, who: 'result', text: formatOutput(item.output) }];
    return [];
  });
}
