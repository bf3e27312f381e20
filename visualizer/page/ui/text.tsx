import { useState } from 'preact/hooks';
import { formatLength } from '../render/format.ts';
import { cutText, showSafely } from '../render/show-safely.ts';

/** How many characters are shown at first. */
const FIRST = { prose: 20_000, mono: 4_000, discarded: 4_000 } as const;
const MORE = 60_000;

/** A text from outside, safe to show and isolated in its direction. */
export function Safe({ text, class: name }: { text: string; class?: string }) {
  return (
    <bdi dir="auto" class={name ?? ''}>
      {showSafely(text)}
    </bdi>
  );
}

/** A long text from outside. Only its beginning is in the document; a button adds more. */
export function LongText({ text, kind }: { text: string; kind: keyof typeof FIRST }) {
  const [length, setLength] = useState<number>(FIRST[kind]);
  const shown = cutText(text, length);
  return (
    <div class={`long ${kind}`}>
      <bdi dir="auto" class="text">
        {showSafely(shown)}
      </bdi>
      <MoreButton left={text.length - shown.length} onMore={() => setLength(shown.length + MORE)} />
    </div>
  );
}

/** The button that adds more of a text; nothing if there is no more. `left` in characters. */
export function MoreButton({ left, onMore }: { left: number; onMore(): void }) {
  if (left <= 0) return null;
  return (
    <button type="button" class="quiet" onClick={onMore}>
      {`Show more (${formatLength(left)} left)`}
    </button>
  );
}
