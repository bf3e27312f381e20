import { h } from './element.ts';
import { formatLength } from './format.ts';
import { cutText, showSafely } from './show-safely.ts';

/** How many characters are shown at first. */
const FIRST = { prose: 20_000, mono: 4_000, discarded: 4_000 } as const;
const MORE = 60_000;

/**
 * Shows untrusted text safely, isolated in its direction. Only the beginning is put on the page; a button adds more.
 */
export function longText(text: string, kind: keyof typeof FIRST): HTMLElement {
  const body = h('bdi', { dir: 'auto', class: 'text' });
  const box = h('div', { class: `long ${kind}` }, body);
  let shown = 0;
  const more = h('button', { type: 'button', class: 'quiet', onclick: () => showMore(MORE) });
  const showMore = (length: number): void => {
    const piece = cutText(text.slice(shown), length);
    shown += piece.length;
    body.append(showSafely(piece));
    if (shown >= text.length) return more.remove();
    more.textContent = `Show more (${formatLength(text.length - shown)} left)`;
    if (!more.isConnected) box.append(more);
  };
  showMore(FIRST[kind]);
  return box;
}
