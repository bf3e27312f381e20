import type { ComponentChildren, JSX } from 'preact';

type ButtonProps = JSX.IntrinsicElements['button'] & { label: ComponentChildren };

export function Button({ label, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest}>
      {label}
    </button>
  );
}

const PATHS = {
  first: 'M3 3h2v10H3zM13 3v10L6 8z',
  back: 'M11 3v10L4 8z',
  play: 'M5 3v10l8-5z',
  stop: 'M4 3h3v10H4zM9 3h3v10H9z',
  next: 'M5 3v10l7-5z',
  last: 'M11 3h2v10h-2zM3 3v10l7-5z',
  left: 'M10 3 5 8l5 5-1 1-6-6 6-6z',
  right: 'M6 3l5 5-5 5 1 1 6-6-6-6z',
  down: 'M7 2h2v8l3-3 1 1-5 6-5-6 1-1 3 3z',
  up: 'M9 14H7V6l-3 3-1-1 5-6 5 6-1 1-3-3z',
  close: 'M4 3l4 4 4-4 1 1-4 4 4 4-1 1-4-4-4 4-1-1 4-4-4-4z',
  crash: 'M7 1h2v4h4v2H9v8H7V7H3V5h4z',
} as const;

/** A small picture in the colour of its text. What it means is said beside it, or by the label of its button. */
export function Icon({ name }: { name: keyof typeof PATHS }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function StatusBadge({ status }: { status: string }) {
  return <span class={`status is-${status.replace(' ', '-')}`}>{status}</span>;
}
