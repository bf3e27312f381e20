import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';

type ActionButtonProps = {
  /** The action. While it runs, the button is busy and ignores clicks. */
  act(): Promise<unknown>;
  children: ComponentChildren;
  class?: string;
  /** The label that asks for a second click to confirm. */
  confirm?: string;
  keys?: string;
};

/** A button for an asynchronous action. */
export function ActionButton({ act, children, confirm, keys, ...rest }: ActionButtonProps) {
  const busy = useSignal(false);
  const asked = useSignal(false);
  const click = async (): Promise<void> => {
    if (busy.peek()) return;
    if (confirm !== undefined && !asked.peek()) {
      asked.value = true;
      return;
    }
    asked.value = false;
    busy.value = true;
    await act();
    busy.value = false;
  };
  return (
    <button
      type="button"
      class={`${rest.class ?? ''} ${asked.value ? 'asking' : ''}`}
      aria-busy={busy.value}
      onClick={() => void click()}
      onBlur={() => {
        asked.value = false;
      }}
    >
      {asked.value ? confirm : children}
      {keys === undefined || asked.value ? null : (
        <span class="key" aria-hidden="true">
          {keys}
        </span>
      )}
    </button>
  );
}
