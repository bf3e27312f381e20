import { type Signal, signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { Icon } from './button.tsx';

const NEAR_PX = 4;
/** What hides a part of a value: it is not seen whole while one of these is there. */
const UNSEEN = '.loading, .more, .value-table, details:not([open])';
const MOST_UNLESS_WHOLE = 0.95;
const seen = new Map<string, Signal<number>>();

/** The fraction of a box that was seen, 0 to 1. `id` identifies its content. */
export function seenPart(id: string): Signal<number> {
  const known = seen.get(id) ?? signal(0);
  seen.set(id, known);
  return known;
}

export function SeenBox({ id, label, children }: { id: string; label: string; children: ComponentChildren }) {
  const box = useRef<HTMLElement>(null);
  const part = seenPart(id);
  const look = (): void => {
    const { scrollTop = 0, clientHeight = 0, scrollHeight = 0 } = box.current ?? {};
    if (scrollHeight === 0) return;
    const isAtEnd = scrollHeight - scrollTop - clientHeight <= NEAR_PX;
    const isWhole = isAtEnd && box.current?.querySelector(UNSEEN) === null;
    const now = isWhole ? 1 : Math.min((scrollTop + clientHeight) / scrollHeight, MOST_UNLESS_WHOLE);
    part.value = Math.max(part.peek(), now);
  };
  useResized(box, look, id);
  const left = Math.ceil((1 - part.value) * 100);
  return (
    <div class={`seen-box ${left > 0 ? 'unseen' : ''}`}>
      <section
        ref={box}
        class="seen-scroll"
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable by keyboard.
        tabIndex={0}
        onScroll={look}
      >
        <div>{children}</div>
      </section>
      {left > 0 ? (
        <p class="not-seen">
          {`${left} % not yet seen `}
          <Icon name="down" />
        </p>
      ) : null}
    </div>
  );
}

/** Calls `look` with the box of each `key`, and when its size changes. */
function useResized(box: { current: HTMLElement | null }, look: () => void, key?: string): void {
  useEffect(() => {
    if (box.current === null) return;
    const watch = new ResizeObserver(look);
    watch.observe(box.current);
    if (box.current.firstElementChild !== null) watch.observe(box.current.firstElementChild);
    return () => watch.disconnect();
  }, [key]);
}

const SPARE = 8;

type VirtualListProps = {
  count: number;
  /** The exact height of each row, in px. */
  rowHeight: number;
  row(index: number): ComponentChildren;
  label: string;
  class?: string;
  /** The row to keep in sight; the list scrolls when it changes. */
  current?: number;
};

/** A list of rows of equal height. Only the rows in sight are in the document. */
export function VirtualList({ count, rowHeight, row, label, current, ...rest }: VirtualListProps) {
  const box = useRef<HTMLElement>(null);
  const sight = useSignal({ top: 0, height: 800 });
  const look = (): void => {
    const { scrollTop: top = 0, clientHeight: height = 0 } = box.current ?? {};
    const now = sight.peek();
    if (now.top !== top || now.height !== height) sight.value = { top, height };
  };
  useResized(box, look);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || current === undefined || current < 0) return;
    const [top, height] = [current * rowHeight, element.clientHeight];
    if (top < element.scrollTop) element.scrollTop = Math.max(0, top - rowHeight);
    else if (top + rowHeight > element.scrollTop + height) element.scrollTop = top + 2 * rowHeight - height;
    look();
  }, [current, count]);
  const { top, height } = sight.value;
  const first = Math.max(0, Math.floor(top / rowHeight) - SPARE);
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + SPARE);
  const rows = Array.from({ length: Math.max(0, last - first) }, (_, place) => first + place);
  return (
    <section
      ref={box}
      class={`virtual ${rest.class ?? ''}`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reachable by keyboard.
      tabIndex={0}
      aria-label={label}
      onScroll={look}
    >
      <ol class="virtual-rows" style={{ height: `${count * rowHeight}px` }}>
        {rows.map(index => (
          <li
            key={index}
            aria-setsize={count}
            aria-posinset={index + 1}
            style={{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }}
          >
            {row(index)}
          </li>
        ))}
      </ol>
    </section>
  );
}
