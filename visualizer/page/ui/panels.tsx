// visualizer/page/ui: small components without knowledge of runs.

import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Button } from './button.tsx';
import { dropDrafts, hasDrafts } from './draft-field.tsx';

/** A button and the form that it opens. `draftKey` begins the keys of the form's drafts. */
export type Panel = { label: string; draftKey: string; form: ComponentChildren };

type PanelsProps = {
  panels: readonly Panel[];
  open: Pick<Signal<string | null>, 'value' | 'peek'>;
  /** The label of a panel beside which there is no other way on than *Discard*. */
  alone?: string;
  children?: ComponentChildren;
  after?: ComponentChildren;
};

/** Buttons that each open a form, one at a time. *Discard* forgets it; Escape asks if there is text. */
export function Panels({ panels, open, alone, children, after }: PanelsProps) {
  const place = useRef<HTMLDivElement>(null);
  const asks = useSignal(false);
  const shown = panels.find(({ label }) => label === open.value);
  useEffect(() => {
    const panel = place.current?.querySelector('.panel');
    // Fields that are still to come take the focus themselves.
    if (shown !== undefined && panel?.querySelector(':focus, [aria-busy="true"]') === null)
      panel.querySelector<HTMLElement>('textarea, input')?.focus();
  }, [shown?.label]);
  const discard = (): void => {
    if (shown === undefined) return;
    dropDrafts(shown.draftKey);
    open.value = null;
    const { label } = shown;
    requestAnimationFrame(() => {
      const buttons = [...(place.current?.querySelectorAll('button') ?? [])];
      buttons.find(({ textContent }) => textContent === label)?.focus();
    });
  };
  const leave = (event: KeyboardEvent): void => {
    if (event.key !== 'Escape' || event.defaultPrevented || shown === undefined) return;
    event.preventDefault();
    if (!hasDrafts(shown.draftKey)) return discard();
    asks.value = true;
    place.current?.querySelector<HTMLElement>('.discard')?.focus();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape in a field or a button of the panel reaches it here.
    <div class="panels" ref={place} onKeyDown={leave}>
      <div class="panel" key={shown?.draftKey ?? ''}>
        {shown?.form}
      </div>
      <p class="asks" role="status">
        {asks.value && 'Discard what you typed? Enter discards it.'}
      </p>
      <div class="buttons">
        {(shown === undefined || shown.label !== alone) && [
          children,
          panels.map(({ label }) => (
            <Button
              key={label}
              label={label}
              aria-expanded={open.value === label}
              onClick={() => (open.value = open.peek() === label ? null : label)}
            />
          )),
        ]}
        {shown && (
          <Button label="Discard" class="discard" onClick={discard} onBlur={() => (asks.value = false)} />
        )}
        {after}
      </div>
    </div>
  );
}
