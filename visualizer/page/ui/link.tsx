import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { showSafe } from '../render/format.ts';

type LinkProps = { href: string; children?: ComponentChildren };

/**
 * A link from outside. The first press shows its whole address, the second opens it, in a new tab and without a
 * referrer. Until then it is not a link, so that nothing else opens it either.
 */
export function Link({ href, children = showSafe(href) }: LinkProps) {
  const isShown = useSignal(false);
  const opens = useRef<HTMLAnchorElement>(null);
  useEffect(() => opens.current?.focus(), [isShown.value]);
  const address = URL.canParse(href) ? new URL(href).href : '';
  if (!/^https?:/.test(address)) return <>{children}</>;
  if (!isShown.value)
    return (
      <button type="button" class="link" onClick={() => (isShown.value = true)}>
        {children}
      </button>
    );
  return (
    <>
      {children}{' '}
      <a
        ref={opens}
        class="address"
        href={address}
        target="_blank"
        rel="noreferrer noopener nofollow"
        onBlur={() => (isShown.value = false)}
        onKeyDown={({ key }) => {
          if (key === 'Escape') isShown.value = false;
        }}
      >
        Open {showSafe(address)}
      </a>
    </>
  );
}
