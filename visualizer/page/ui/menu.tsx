import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';

/** A button that opens a panel below it. Escape, a link in it, and leaving it close it. */
export function Menu({ label, children }: { label: string; children: ComponentChildren }) {
  const place = useRef<HTMLDetailsElement>(null);
  const close = (): void => {
    if (place.current !== null) place.current.open = false;
  };
  return (
    <details
      ref={place}
      class="menu"
      onFocusOut={({ relatedTarget }) => {
        if (relatedTarget instanceof Node && !place.current?.contains(relatedTarget)) close();
      }}
      onClick={({ target }) => {
        if (target instanceof Element && target.closest('a') !== null) close();
      }}
      onKeyDown={event => {
        if (event.key !== 'Escape' || place.current?.open !== true) return;
        close();
        place.current.querySelector('summary')?.focus();
      }}
    >
      <summary>{label}</summary>
      <div class="menu-panel">{children}</div>
    </details>
  );
}
