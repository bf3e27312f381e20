import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { InboxLine } from './inbox-rows.ts';

type Steady = {
  rows: readonly InboxLine[];
  /** How many rows have come since and wait for their place. */
  newer: number;
  /** Gives all rows their place now, unless the pointer is over the list. */
  settle(): void;
  /** For the element of the list. */
  holds: {
    onPointerEnter(event: PointerEvent): void;
    onPointerLeave(): void;
    onFocusIn(): void;
    onFocusOut(event: FocusEvent): void;
  };
};

/**
 * The rows of a list that keep their place while the pointer is over it or the focus is in it. What is resolved meanwhile is
 * gone, in its place; what is new comes after.
 */
export function useSteadyRows(now: readonly InboxLine[]): Steady {
  const shown = useRef<readonly InboxLine[]>([]);
  const by = useRef({ pointer: false, focus: false });
  const isSettling = useRef(false);
  const isHeld = useSignal(false);
  const hold = (changes: Partial<typeof by.current>): void => {
    Object.assign(by.current, changes);
    isHeld.value = by.current.pointer || by.current.focus;
  };
  let newer = 0;
  const change = useSignal(0);
  void change.value;
  if (isHeld.value && !isSettling.current) {
    const fresh = new Map(now.map(row => [row.key, row]));
    shown.current = shown.current.map(row => {
      const { item } = fresh.get(row.key) ?? {};
      fresh.delete(row.key);
      return item === undefined ? { ...row, isGone: true } : { ...row, item, isGone: false };
    });
    newer = fresh.size;
  } else shown.current = now;
  isSettling.current = false;
  return {
    rows: shown.current,
    newer,
    settle() {
      if (by.current.pointer) return;
      isSettling.current = true;
      change.value += 1;
    },
    holds: {
      onPointerEnter: ({ pointerType }) => hold({ pointer: pointerType !== 'touch' }),
      onPointerLeave: () => hold({ pointer: false }),
      onFocusIn: () => hold({ focus: true }),
      onFocusOut: ({ currentTarget, relatedTarget }) =>
        hold({ focus: relatedTarget instanceof Node && (currentTarget as Node).contains(relatedTarget) }),
    },
  };
}
