import { h } from './element.ts';
import { formatBytes } from './format.ts';
import { cutText, showSafely } from './show-safely.ts';

/** Characters that are shown at once: of what people read, and of what they look up. */
const FIRST = { prose: 20_000, mono: 4_000, discarded: 4_000 } as const;
const MORE = 60_000;

/**
 * Text from outside, isolated in its direction and spelled out where it is not plain. Only its beginning is
 * put on the page; the rest comes a piece at a time, when asked for.
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
    more.textContent = `Show more (${formatBytes(text.length - shown)} left)`;
    if (!more.isConnected) box.append(more);
  };
  showMore(FIRST[kind]);
  return box;
}
