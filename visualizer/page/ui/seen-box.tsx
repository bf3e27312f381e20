import { type Signal, signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Icon } from './icon.tsx';

const NEAR_PX = 4;
const seen = new Map<string, Signal<number>>();

/** The fraction of a box that was seen, 0 to 1. `id` identifies its content. */
export function seenPart(id: string): Signal<number> {
  const known = seen.get(id) ?? signal(0);
  seen.set(id, known);
  return known;
}

/** A scrolling box that shows how much of its content was not seen yet. */
export function SeenBox({ id, label, children }: { id: string; label: string; children: ComponentChildren }) {
  const box = useRef<HTMLElement>(null);
  const part = seenPart(id);
  const look = (): void => {
    const { scrollTop = 0, clientHeight = 0, scrollHeight = 0 } = box.current ?? {};
    if (scrollHeight === 0) return;
    const now =
      scrollHeight - scrollTop - clientHeight <= NEAR_PX ? 1 : (scrollTop + clientHeight) / scrollHeight;
    part.value = Math.max(part.peek(), now);
  };
  useEffect(() => {
    if (box.current === null) return;
    const watch = new ResizeObserver(look);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, [id]);
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
        {children}
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
