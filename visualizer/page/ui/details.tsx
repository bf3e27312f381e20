import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

type DetailsProps = {
  summary: ComponentChildren;
  open?: boolean;
  class?: string;
  children(): ComponentChildren;
};

/** A part that unfolds; its content is made when it is first opened. */
export function Details({ summary, open = false, children, ...rest }: DetailsProps) {
  const [isOpen, setOpen] = useState(open);
  return (
    <details open={isOpen} class={rest.class ?? ''} onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen ? <div class="opened">{children()}</div> : null}
    </details>
  );
}
