import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { diffLines } from '../render/diff-lines.ts';
import { formatLength, showSafe, takePages } from '../render/format.ts';
import { Button } from './button.tsx';

type SafeProps = { text: string; class?: string; in?: 'p' | 'li' | 'strong' | 'h3' | 'dd' };

/** A text from outside, safe to show and isolated in its direction; with `in`, in an element of its own. */
export function Safe({ text, class: name = '', in: Place }: SafeProps) {
  const isolated = (
    <bdi dir="auto" class={Place === undefined ? name : ''}>
      {showSafe(text)}
    </bdi>
  );
  return Place === undefined ? isolated : <Place class={name}>{isolated}</Place>;
}

export function ProblemText({ text = '' }: { text?: string | undefined }) {
  return (
    <p class="problem" role="alert">
      {showSafe(text)}
    </p>
  );
}

export function Facts({ of, class: name = 'facts-table' }: { of: readonly Fact[]; class?: string }) {
  return (
    <dl class={name}>
      {of.map(
        (fact, index) =>
          fact && (
            <div key={index}>
              <dt>{showSafe(fact[0])}</dt>
              <Safe in="dd" text={fact[1]} />
            </div>
          ),
      )}
    </dl>
  );
}

/** `false`: there is no such fact. */
export type Fact = readonly [name: string, value: string] | false | null;

type LongTextProps = { text: string; kind: 'prose' | 'mono' };

/** A long text from outside, by pages: only those that a person asked for are in the document. */
export function LongText({ text, kind }: LongTextProps) {
  const count = useSignal(1);
  const { pages, left } = takePages(text, count.value);
  return (
    <div class={`long ${kind}`}>
      {(text === '' ? [''] : pages).map((page, at) => (
        <bdi key={at} dir="auto" class="text">
          {showSafe(page)}
        </bdi>
      ))}
      <MoreButton left={left} onMore={() => (count.value += 1)} />
    </div>
  );
}

/** The button that adds more of a text, if there is more. `left` in characters. */
export function MoreButton({ left, onMore }: { left: number; onMore(): void }) {
  if (left <= 0) return null;
  return <Button class="quiet more" label={`Show more (${formatLength(left)} left)`} onClick={onMore} />;
}

/** How many members or rows are in the document at once, and how many more a press adds. */
export const ROWS = 100;

/** The button that adds more rows of a list, if there are more. */
export function MoreRows({ shown, count }: { shown: Signal<number>; count: number }) {
  const left = count - shown.value;
  if (left <= 0) return null;
  return (
    <Button
      class="quiet more"
      label={`Show ${formatNumber(Math.min(left, ROWS))} more of ${formatNumber(count)}`}
      onClick={() => (shown.value += ROWS)}
    />
  );
}

const LONG = 90;

/** Whether a text is shown as a text of its own: it has lines, or is long. */
export function isProse(value: unknown): value is string {
  return typeof value === 'string' && (value.includes('\n') || value.length > LONG);
}

type DetailsProps = {
  summary: ComponentChildren;
  open?: boolean;
  children(): ComponentChildren;
};

export function Details({ summary, open = false, children }: DetailsProps) {
  const isOpen = useSignal(open);
  return (
    <details open={isOpen.value} onToggle={event => (isOpen.value = event.currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen.value ? <div class="opened">{children()}</div> : null}
    </details>
  );
}

const MARKS = { same: '  ', removed: '− ', added: '+ ' } as const;

export function Diff({ before, after }: { before: string; after: string }) {
  const lines = diffLines(before, after);
  if (lines.every(({ kind }) => kind === 'same')) return <p class="muted">No changes yet.</p>;
  return (
    <ol class="diff" aria-label="Changes">
      {lines.map(({ kind, text }, index) => (
        <li key={index} class={`diff-line ${kind}`}>
          {MARKS[kind]}
          {showSafe(text)}
        </li>
      ))}
    </ol>
  );
}

export function FoldedText({ text, kind, ...rest }: Omit<DetailsProps, 'children'> & LongTextProps) {
  return <Details {...rest}>{() => <LongText text={text} kind={kind} />}</Details>;
}
