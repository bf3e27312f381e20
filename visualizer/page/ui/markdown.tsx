import { useSignal } from '@preact/signals';
import { type ComponentChildren, h } from 'preact';
import { useMemo } from 'preact/hooks';
import { showSafe, takePages } from '../render/format.ts';
import type { Inline } from '../render/read-inline.ts';
import { type MarkdownBlock, readMarkdown } from '../render/read-markdown.ts';
import { Button } from './button.tsx';
import { Link } from './link.tsx';
import { LongText, MoreButton } from './text.tsx';

/** What only Markdown gives a meaning, and what is worth more than its source. */
const MARKED = /^ {0,3}(?:#{1,6} |[-*+] |\d+[.)] |>|```|~~~|\|)|\*\*|__|`|\]\(|https?:\/\/|www\.|[*_~]\w/im;
/** Texts are looked at to here. */
const LOOKED_AT = 20_000;

type MarkdownProps = { text: string; asSource?: boolean; kind?: 'prose' | 'mono' };

/**
 * A text from outside as Markdown, with a switch to its source, or the other way round: `asSource`. It is made of
 * elements: markup in it stays text, and images become links.
 */
export function Markdown({ text, asSource = false, kind = 'mono' }: MarkdownProps) {
  const isSource = useSignal(asSource);
  if (!MARKED.test(text.slice(0, LOOKED_AT)))
    return <LongText text={text} kind={asSource ? kind : 'prose'} />;
  return (
    <div class="switched">
      {isSource.value ? <LongText text={text} kind={kind} /> : <Formatted text={text} />}
      <Button
        class="quiet switch"
        label={isSource.value ? 'Formatted' : 'Source'}
        title={isSource.value ? 'Show it as Markdown' : 'Show what was written'}
        onClick={() => (isSource.value = !isSource.peek())}
      />
    </div>
  );
}

function Formatted({ text }: { text: string }) {
  const count = useSignal(1);
  const { pages, left } = takePages(text, count.value);
  return (
    <div class="long prose">
      {pages.map((page, at) => (
        <Page key={at} text={page} />
      ))}
      <MoreButton left={left} onMore={() => (count.value += 1)} />
    </div>
  );
}

function Page({ text }: { text: string }) {
  const blocks = useMemo(() => readMarkdown(showSafe(text)).map(drawBlock), [text]);
  return (
    <div class="text markdown" dir="auto">
      {blocks}
    </div>
  );
}

function drawBlock(block: MarkdownBlock, key: number): ComponentChildren {
  switch (block.kind) {
    case 'heading':
      return h('p', { key, class: `heading level-${block.level}` }, drawInline(block.of));
    case 'paragraph':
      return <p key={key}>{drawInline(block.of)}</p>;
    case 'code':
      return h('pre', { key, title: block.info }, <code>{block.text}</code>);
    case 'quote':
      return h('blockquote', { key }, block.of.map(drawBlock));
    case 'list':
      return drawList(block, key);
    case 'table':
      return drawTable(block, key);
    case 'rule':
      return <hr key={key} />;
  }
}

function drawList({ start, isLoose, items }: Extract<MarkdownBlock, { kind: 'list' }>, key: number) {
  const rows = items.map(({ checked, of }, index) => (
    <li key={index}>
      {checked !== null && (checked ? '☑ ' : '☐ ')}
      {of.map((block, place) =>
        block.kind === 'paragraph' && !isLoose ? drawInline(block.of) : drawBlock(block, place),
      )}
    </li>
  ));
  return start === null ? <ul key={key}>{rows}</ul> : h('ol', { key, start }, rows);
}

function drawTable({ head, rows }: Extract<MarkdownBlock, { kind: 'table' }>, key: number) {
  const drawRow = (tag: 'th' | 'td', cells: readonly Inline[][], place = 0) => (
    <tr key={place}>{cells.map((cell, index) => h(tag, { key: index }, drawInline(cell)))}</tr>
  );
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls has to be reachable by keyboard.
    <div key={key} class="table" tabIndex={0}>
      <table>
        <thead>{drawRow('th', head)}</thead>
        <tbody>{rows.map((cells, index) => drawRow('td', cells, index))}</tbody>
      </table>
    </div>
  );
}

function drawInline(parts: readonly Inline[]): ComponentChildren[] {
  return parts.map((part, key) => {
    if (typeof part === 'string') return part;
    switch (part.kind) {
      case 'code':
        return <code key={key}>{part.text}</code>;
      case 'break':
        return <br key={key} />;
      case 'link':
        return (
          <Link key={key} href={part.href}>
            {part.of.length === 0 ? part.href : drawInline(part.of)}
          </Link>
        );
      default:
        return h(part.kind, { key }, drawInline(part.of));
    }
  });
}
