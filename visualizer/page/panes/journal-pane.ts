import type { NextAction } from '../../../protocol/effect.ts';
import { describeEvent } from '../render/describe-event.ts';
import { h } from '../render/element.ts';
import { formatClock, formatDay, formatEvent } from '../render/format.ts';
import { longText } from '../render/long-text.ts';
import { shorten, showSafely } from '../render/show-safely.ts';
import { stickToBottom } from '../render/stick-to-bottom.ts';
import type { Entry } from './conversation.ts';
import type { Pane } from './conversation-pane.ts';
import { lazyDetails } from './panels.ts';

/**
 * The journal pane: one line per entry, with the reasons of decisions. It scrolls with new entries while it is scrolled
 * to the end. `point` is called with the entry under the pointer or focus.
 */
export function makeJournalPane(point: (entry: Entry | null) => void): Pane<readonly Entry[]> {
  const list = h('ol', { class: 'entries' });
  const scroller = h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Journal' }, list);
  const names = new Map<string, string>();
  let shown = 0;
  stickToBottom(scroller, list);
  return {
    element: h('section', { class: 'pane journal' }, h('h2', { class: 'pane-title' }, 'Journal'), scroller),
    update(entries) {
      if (entries.length === shown) return;
      const lines = entries.slice(shown).map(entry => {
        if (entry.event.type === 'turn.completed')
          for (const { callId, name } of entry.event.calls) names.set(callId, shorten(name, 60));
        return drawEntry(entry, callId => names.get(callId) ?? shorten(callId, 40), point);
      });
      list.append(...lines);
      shown = entries.length;
    },
  };
}

function drawEntry(
  entry: Entry,
  nameCall: (callId: string) => string,
  point: (entry: Entry | null) => void,
): HTMLElement {
  const { event, taken } = entry;
  const [group = ''] = event.type.split('.');
  const about = describeEvent(event, nameCall);
  const line = lazyDetails(
    [
      h('span', { class: 'seq' }, String(event.seq)),
      h('span', { class: 'type' }, event.type),
      h('time', { title: formatDay(event.at) }, formatClock(event.at)),
      about === '' ? '' : h('bdi', { class: 'about' }, about),
    ],
    () => longText(formatEvent(event), 'mono'),
  );
  const leave = (): void => point(null);
  return h(
    'li',
    {
      class: `entry of-${group}`,
      onmouseenter: () => point(entry),
      onmouseleave: leave,
      onfocusin: () => point(entry),
      onfocusout: leave,
    },
    line,
    ...taken.decisions.map(drawDecision),
  );
}

function drawDecision(next: NextAction): HTMLElement {
  return h('p', { class: 'why' }, h('strong', {}, next.type), ' ', h('bdi', {}, showSafely(next.why)));
}
