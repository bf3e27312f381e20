import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { formatNumber } from '../../../../protocol/listing/format-number.ts';
import { formatCount } from '../../render/format.ts';
import { Button, Icon } from '../../ui/button.tsx';
import { useDesk } from '../desk.ts';
import { searchEntry } from './search-entry.ts';

const SLICE_MS = 8;
/** The most that is marked: as many ranges, and as long as they take to find. */
const MOST = { ranges: 500, ms: 6 };
const NAME = 'found';

/** The field that searches the run, while it is open. The strip draws the hits. */
export function FindBar() {
  const desk = useDesk();
  const { model, finding, hits } = desk;
  const text = finding.value ?? '';
  const isDone = useSearch(text);
  const field = useRef<HTMLInputElement>(null);
  useHighlights(text);
  useEffect(() => field.current?.focus(), []);
  const place = hits.value.indexOf(model.at.value);
  const go = (by: number): void => desk.goAlong(hits.peek(), by);
  const close = (): void => {
    finding.value = null;
    hits.value = [];
    document.querySelector<HTMLElement>('.track')?.focus();
  };
  return (
    <search
      class="find"
      onKeyDown={event => {
        if (event.key !== 'Escape') return;
        event.preventDefault();
        close();
      }}
    >
      <input
        ref={field}
        type="search"
        aria-label="Find in this run"
        placeholder="Find in this run"
        value={text}
        onInput={event => (finding.value = event.currentTarget.value)}
        onKeyDown={event => {
          if (event.key === 'Enter') go(event.shiftKey ? -1 : 1);
        }}
      />
      <output class="muted">{text !== '' && describe(hits.value.length, place, isDone)}</output>
      <Button aria-label="Previous hit" class="quiet" label={<Icon name="left" />} onClick={() => go(-1)} />
      <Button aria-label="Next hit" class="quiet" label={<Icon name="right" />} onClick={() => go(1)} />
      <Button class="quiet" label="Close" onClick={close} />
    </search>
  );
}

function describe(count: number, place: number, isDone: boolean): string {
  if (!isDone) return 'Searching…';
  if (count === 0) return 'Nothing found';
  return place === -1
    ? formatCount(count, 'entry', 'entries')
    : `${formatNumber(place + 1)} of ${formatNumber(count)}`;
}

/** Searches the journal in slices between which the page can draw, and each new entry once. */
function useSearch(typed: string): boolean {
  const { model, hits } = useDesk();
  const isDone = useSignal(false);
  const search = useRef({ text: '', seq: 0, found: [] as number[] });
  const text = typed.trim().toLowerCase();
  const [first, last] = [model.first.value, model.last.value];
  useEffect(() => {
    let isOver = false;
    if (search.current.text !== text) {
      search.current = { text, seq: 0, found: [] };
      isDone.value = false;
      hits.value = [];
    }
    const known = search.current;
    const nameOf = (callId: string) => model.story.nameOf(callId);
    const go = async (): Promise<void> => {
      for (let began = performance.now(); known.seq < last; ) {
        known.seq += 1;
        const event = model.entry(known.seq);
        if (event && searchEntry(event, text, nameOf)) known.found.push(known.seq);
        if (performance.now() - began < SLICE_MS) continue;
        await new Promise(resolve => setTimeout(resolve, 0));
        if (isOver) return;
        began = performance.now();
      }
      if (known.found.length > hits.peek().length) hits.value = [...known.found];
      isDone.value = true;
    };
    // A long journal is read from its end; it is searched once all of it is here.
    if (text !== '' && first === 1) void go();
    return () => {
      isOver = true;
    };
  }, [text, first, last]);
  return isDone.value;
}

/** Marks a text in the panes, where the browser can without changing the document. */
function useHighlights(text: string): void {
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
  const until = performance.now() + MOST.ms;
  const texts = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    const text = node.textContent?.toLowerCase() ?? '';
    for (let at = text.indexOf(words); at !== -1; at = text.indexOf(words, at + words.length)) {
      if (ranges.length >= MOST.ranges || text.length !== node.textContent?.length) break;
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + words.length);
      ranges.push(range);
    }
    if (performance.now() > until) break;
  }
  return ranges;
}
