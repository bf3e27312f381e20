import { type ComponentChildren, h } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { showSafe, takeCharacters } from '../render/format.ts';
import type { Inline } from '../render/read-inline.ts';
import { type Block, readMarkdown } from '../render/read-markdown.ts';
import { MoreButton } from './text.tsx';

const FIRST = 20_000;
const MORE = 60_000;

/** A text from outside as Markdown, made of elements: markup in it stays text, and images become links. */
export function Markdown({ text }: { text: string }) {
  const [length, setLength] = useState(FIRST);
  const shown = takeCharacters(text, length);
  const blocks = useMemo(() => readMarkdown(showSafe(shown)).map(drawBlock), [shown]);
  return (
    <div class="long prose">
      <div class="text markdown" dir="auto">
        {blocks}
      </div>
      <MoreButton left={text.length - shown.length} onMore={() => setLength(shown.length + MORE)} />
    </div>
  );
}

function drawBlock(block: Block, key: number): ComponentChildren {
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

function drawList({ start, isLoose, items }: Extract<Block, { kind: 'list' }>, key: number) {
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

function drawTable({ head, rows }: Extract<Block, { kind: 'table' }>, key: number) {
  const drawRow = (tag: 'th' | 'td', cells: readonly Inline[][], place = 0) => (
    <tr key={place}>{cells.map((cell, index) => h(tag, { key: index }, drawInline(cell)))}</tr>
  );
  return (
    <div key={key} class="table">
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
        return drawLink(part.href, part.of, key);
      default:
        return h(part.kind, { key }, drawInline(part.of));
    }
  });
}

/** Links lead only to web pages, show their target, and send no referrer. */
function drawLink(href: string, of: readonly Inline[], key: number) {
  return (
    <a key={key} href={href} target="_blank" rel="noreferrer noopener nofollow" title={href}>
      {of.length === 0 ? href : drawInline(of)}
    </a>
  );
}
