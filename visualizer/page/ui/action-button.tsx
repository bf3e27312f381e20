import type { ComponentChildren } from 'preact';
import { useTwoPresses } from './two-presses.ts';

type ActionButtonProps = {
  /** The action. While it runs, the button is busy and ignores presses. */
  act(): Promise<unknown>;
  children: ComponentChildren;
  class?: string;
  /** Returns the label that asks for a second press; empty to act at once. */
  confirm?(): string;
  keys?: string;
};

/** A button for an asynchronous action. */
export function ActionButton({ act, children, confirm, keys, ...rest }: ActionButtonProps) {
  const { asked, isBusy, press, scope } = useTwoPresses<HTMLSpanElement>(0);
  return (
    <span class="two-presses" {...scope}>
      <button
        type="button"
        class={`${rest.class ?? ''} ${asked === '' ? '' : 'asking'}`}
        aria-busy={isBusy}
        onClick={event => press(event, { words: confirm?.() ?? '', act })}
      >
        {asked || children}
        {keys === undefined || asked !== '' ? null : (
          <span class="key" aria-hidden="true">
            {keys}
          </span>
        )}
      </button>
      {confirm === undefined ? null : (
        <span class="spoken" role="status">
          {asked}
        </span>
      )}
    </span>
  );
}
