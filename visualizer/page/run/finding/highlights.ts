import { useEffect } from 'preact/hooks';

const MOST_RANGES = 500;
const MOST_MS = 6;
const NAME = 'found';

/** Marks a text in the panes, where the browser can without changing the document. */
export function useHighlights(text: string): void {
  useEffect(() => {
    const panes = document.querySelector('.panes');
    const words = text.trim().toLowerCase();
    if (panes === null || words === '' || !('highlights' in CSS)) return;
    const { highlights } = CSS;
    let frame = 0;
    const draw = (): void => {
      highlights.set(NAME, new Highlight(...findRanges(panes, words)));
    };
    const drawSoon = (): void => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(draw);
    };
    const watch = new MutationObserver(drawSoon);
    watch.observe(panes, { subtree: true, childList: true, characterData: true });
    drawSoon();
    return () => {
      watch.disconnect();
      cancelAnimationFrame(frame);
      highlights.delete(NAME);
    };
  }, [text]);
}

function findRanges(box: Element, words: string): Range[] {
  const ranges: Range[] = [];
  const until = performance.now() + MOST_MS;
  const texts = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    const text = node.textContent?.toLowerCase() ?? '';
    for (let at = text.indexOf(words); at !== -1; at = text.indexOf(words, at + words.length)) {
      if (ranges.length >= MOST_RANGES || text.length !== node.textContent?.length) break;
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + words.length);
      ranges.push(range);
    }
    if (performance.now() > until) break;
  }
  return ranges;
}
