import { diffLines } from '../render/diff-lines.ts';
import { showSafely } from '../render/show-safely.ts';

const MARKS = { same: '  ', removed: '− ', added: '+ ' } as const;

/** The lines that differ between two texts, in their places. */
export function Diff({ before, after }: { before: string; after: string }) {
  const lines = diffLines(before, after);
  if (lines.every(({ kind }) => kind === 'same')) return <p class="muted">No changes yet.</p>;
  return (
    <ol class="diff" aria-label="Changes">
      {lines.map(({ kind, text }, index) => (
        <li key={index} class={`diff-line ${kind}`}>
          {MARKS[kind]}
          {showSafely(text)}
        </li>
      ))}
    </ol>
  );
}
