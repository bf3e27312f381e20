import { useSignal } from '@preact/signals';
import type { JsonValue } from '../../../protocol/json.ts';
import { formatJson, formatLine, showSafe } from '../render/format.ts';
import { Button } from './button.tsx';

const SHORT = 80;
const SHOWN_MS = 1_500;

/** A button beside a key that shows its path, and copies it or the value. */
export function CopyMenu({ path, value }: { path: string; value: JsonValue }) {
  const isOpen = useSignal(false);
  return (
    <span class="copies">
      <Button
        class="quiet"
        label="…"
        aria-label={`Copy ${path === '' ? 'all' : formatLine(path, SHORT)}`}
        aria-expanded={isOpen.value}
        onClick={() => (isOpen.value = !isOpen.peek())}
      />
      {isOpen.value && (
        <span class="copy-bar">
          {path !== '' && (
            <>
              <code>{showSafe(path)}</code>
              <CopyButton label="Copy path" read={() => path} />
            </>
          )}
          <CopyButton label="Copy value" read={() => formatJson(value)} />
        </span>
      )}
    </span>
  );
}

function CopyButton({ label, read }: { label: string; read(): string }) {
  const [shown, copy] = useCopy(label, read);
  return <Button class="quiet" label={shown} onClick={copy} />;
}

/** The label of what copies a text, which says for a moment that it is copied, and what copies it. */
export function useCopy(label: string, read: () => string): [shown: string, copy: () => Promise<void>] {
  const isCopied = useSignal(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard?.writeText(read()).catch(() => {});
    isCopied.value = true;
    setTimeout(() => (isCopied.value = false), SHOWN_MS);
  };
  return [isCopied.value ? 'Copied' : label, copy];
}
