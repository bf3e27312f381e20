import { makeCallView } from '../calls/call-view.ts';
import type { Act } from '../commands/act.ts';
import { fill, h, keyedList, type View } from '../render/element.ts';
import { formatClock } from '../render/format.ts';
import { longText } from '../render/long-text.ts';
import { showSafely } from '../render/show-safely.ts';
import { stickToBottom } from '../render/stick-to-bottom.ts';
import type { Block } from './conversation.ts';
import { lazyDetails } from './panels.ts';

/** A part of the page that shows a state. */
export type Pane<State> = { element: HTMLElement; update(state: State): void };

/** The conversation pane. It scrolls with new content while it is scrolled to the end. */
export function makeConversationPane(runId: string, act: Act): Pane<readonly Block[]> {
  const list = h('div', { class: 'blocks' });
  const scroller = h(
    'div',
    { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Conversation' },
    list,
  );
  const show = keyedList<Block>(
    list,
    ({ key, kind }) => `${kind} ${key}`,
    block => makeBlock(block, runId, act),
  );
  stickToBottom(scroller, list);
  return {
    element: h(
      'section',
      { class: 'pane conversation' },
      h('h2', { class: 'pane-title' }, 'Conversation'),
      scroller,
    ),
    update(blocks) {
      show(blocks);
    },
  };
}

function makeBlock(block: Block, runId: string, act: Act): View<Block> {
  if (block.kind !== 'call') return makeTextBlock(block);
  const view = makeCallView(runId, act);
  return {
    element: view.element,
    update(now) {
      if (now.kind === 'call') view.update(now.call);
    },
  };
}

function makeTextBlock({ kind }: Block): View<Block> {
  const element = h('div', { class: `block ${kind}` });
  return {
    element,
    update(block) {
      fill(element, Object.values(block), () => drawBlock(block));
    },
  };
}

function drawBlock(block: Block): HTMLElement[] {
  switch (block.kind) {
    case 'message': {
      const who = block.role === 'user' ? (block.by ?? 'user') : block.role;
      return [
        drawWho(who, block.at, block.unread ? 'arrived too late to be read' : ''),
        longText(block.text, 'prose'),
        ...block.others.map(kind => h('p', { class: 'muted' }, `(${kind})`)),
      ];
    }
    case 'reply': {
      const mark = block.preamble ? 'before tool calls' : '';
      return [
        drawWho('agent', block.at, block.live ? `${block.preamble ? `${mark}, ` : ''}writing…` : mark),
        longText(block.text, 'prose'),
      ];
    }
    case 'reasoning':
      return [
        lazyDetails(
          [block.live ? 'Reasoning…' : 'Reasoning'],
          () => longText(block.text, 'prose'),
          block.live,
        ),
      ];
    case 'aside':
      return [
        block.text === ''
          ? h('p', { class: 'muted' }, showSafely(block.title))
          : lazyDetails([showSafely(block.title)], () => longText(block.text, 'mono')),
      ];
    case 'failure':
      return drawFailure(block);
    case 'call':
      return [];
  }
}

function drawFailure({ failure, attempt, discarded }: Extract<Block, { kind: 'failure' }>): HTMLElement[] {
  const status = failure.status === undefined ? '' : ` (HTTP ${failure.status})`;
  const where = failure.model === undefined ? '' : ` of ${failure.model}`;
  const lost =
    discarded === null
      ? []
      : [
          discarded === ''
            ? h('p', { class: 'muted' }, 'The streamed text was discarded.')
            : lazyDetails(['The streamed text was discarded'], () => longText(discarded, 'discarded')),
        ];
  return [
    h('p', {}, h('strong', {}, `Attempt ${attempt}${where} failed: ${failure.code}${status}`)),
    longText(failure.message, 'prose'),
    ...lost,
  ];
}

function drawWho(who: string, at: number, mark: string): HTMLElement {
  return h(
    'p',
    { class: 'who' },
    h('strong', {}, h('bdi', {}, showSafely(who))),
    mark === '' ? null : h('span', { class: 'mark' }, mark),
    at === 0 ? null : h('time', {}, formatClock(at)),
  );
}
