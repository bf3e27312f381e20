import type { ComponentChildren, JSX } from 'preact';

type ButtonProps = JSX.IntrinsicElements['button'] & { label: ComponentChildren };

/** A button that acts at once. */
export function Button({ label, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest}>
      {label}
    </button>
  );
}
