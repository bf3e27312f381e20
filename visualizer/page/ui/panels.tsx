// visualizer/page/ui: small components without knowledge of runs.

import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

/** A button and the form that it opens. */
export type Panel = { label: string; make(): ComponentChildren };

type PanelsProps = { panels: readonly Panel[]; children?: ComponentChildren; after?: ComponentChildren };

/** Buttons that each open a form above them, one at a time; `children` act at once. */
export function Panels({ panels, children, after }: PanelsProps) {
  const open = useSignal<string | null>(null);
  const place = useRef<HTMLDivElement>(null);
  const shown = panels.find(({ label }) => label === open.value);
  useEffect(() => {
    if (shown !== undefined) place.current?.querySelector<HTMLElement>('textarea, input')?.focus();
  }, [shown?.label]);
  return (
    <div class="panels">
      <div ref={place} class="panel">
        {shown?.make()}
      </div>
      <div class="buttons">
        {children}
        {panels.map(({ label }) => (
          <button
            key={label}
            type="button"
            aria-expanded={open.value === label}
            onClick={() => {
              open.value = open.peek() === label ? null : label;
            }}
          >
            {label}
          </button>
        ))}
        {after}
      </div>
    </div>
  );
}
