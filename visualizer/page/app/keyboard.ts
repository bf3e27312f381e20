import { signal } from '@preact/signals';
import { useLayoutEffect, useMemo } from 'preact/hooks';

/** `keys` are values of `KeyboardEvent.key`, with `Shift+` where it matters. A held key repeats it only with `repeats`. */
export type Shortcut = {
  keys: readonly string[];
  does: string;
  repeats?: true;
  run(event: KeyboardEvent): void;
};

type Group = { title: string; shortcuts: readonly Shortcut[] };

const groups = signal<readonly Group[]>([]);

export const shownShortcuts = groups;
export const helpIsOpen = signal(false);

/** Keys that work while the component is shown, each as it was drawn last. They do nothing while a person types. */
export function useShortcuts(title: string, shortcuts: readonly Shortcut[]): void {
  const group: Group = useMemo(() => ({ title, shortcuts }), []);
  Object.assign(group, { title, shortcuts });
  useLayoutEffect(() => {
    groups.value = [...groups.peek(), group];
    return () => {
      groups.value = groups.peek().filter(one => one !== group);
    };
  }, []);
}

export function watchKeys(): void {
  document.addEventListener('keydown', stopRepeats, true);
  document.addEventListener('keydown', event => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '?' && !isTyping(event.target)) {
      event.preventDefault();
      helpIsOpen.value = !helpIsOpen.peek();
      return;
    }
    if (helpIsOpen.peek() || isTyping(event.target)) return;
    const found = groups
      .peek()
      .flatMap(({ shortcuts }) => shortcuts)
      .findLast(({ keys }) => keys.includes(event.key));
    if (found === undefined) return;
    event.preventDefault();
    if (!event.repeat || found.repeats) found.run(event);
  });
}

/** A held Enter presses a button or sends a form once; in a text of several lines it adds lines. */
function stopRepeats(event: KeyboardEvent): void {
  if (!event.repeat || event.key !== 'Enter') return;
  const isText = event.target instanceof HTMLElement && event.target.matches('textarea');
  if (isText && !event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  event.stopPropagation();
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target.closest('dialog[open]') !== null) return true;
  return target.matches('textarea, select, input:not([type="checkbox"]):not([type="radio"])');
}
