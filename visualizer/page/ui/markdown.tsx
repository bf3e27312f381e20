import { Lexer, type Token, type Tokens } from 'marked';
import { type ComponentChildren, h } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { showSafe, takeCharacters } from '../render/format.ts';
import { MARKDOWN_OPTIONS } from '../render/markdown-options.ts';
import { LongText, MoreButton } from './text.tsx';

const FIRST = 20_000;
const MORE = 60_000;
/** Deeper lists and quotes are shown as text. */
const DEEPEST = 8;

/** A text from outside as Markdown, made of elements: markup in it stays text, and images become links' texts. */
export function Markdown({ text }: { text: string }) {
  const [length, setLength] = useState(FIRST);
  const shown = takeCharacters(text, length);
  const tokens = useMemo(() => readTokens(shown), [shown]);
  if (tokens === null) return <LongText text={text} kind="prose" />;
  return (
    <div class="long prose">
      <div class="text markdown" dir="auto">
        <Blocks tokens={tokens} depth={0} />
      </div>
      <MoreButton left={text.length - shown.length} onMore={() => setLength(shown.length + MORE)} />
    </div>
  );
}

/** What Markdown gives a meaning, in a text without line breaks; most short texts have none of it. */
const MARKED = /[\n\r\t\\`*_~[\]<>#|&=@]|:\/\/|www\.|^ |^[-+] |^\d+[.)] |---/;

/** Returns `null` if the text cannot be read as Markdown. */
function readTokens(text: string): Token[] | null {
  const safe = showSafe(text);
  if (!MARKED.test(safe)) return [{ type: 'text', raw: safe, text: safe }];
  try {
    return new Lexer(MARKDOWN_OPTIONS).lex(safe);
  } catch {
    return null;
  }
}

function Blocks({ tokens, depth }: { tokens: readonly Token[]; depth: number }) {
  return <>{tokens.map((token, index) => drawBlock(token, index, depth))}</>;
}

function drawBlock(token: Token, key: number, depth: number): ComponentChildren {
  if (depth > DEEPEST) return <p key={key}>{token.raw}</p>;
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading':
      return h('p', { key, class: `heading level-${token.depth}` }, drawInline(token.tokens, depth));
    case 'code':
      return h('pre', { key }, <code>{token.text}</code>);
    case 'blockquote':
      return h('blockquote', { key }, <Blocks tokens={token.tokens ?? []} depth={depth + 1} />);
    case 'list':
      return drawList(token as Tokens.List, key, depth);
    case 'table':
      return drawTable(token as Tokens.Table, key, depth);
    case 'hr':
      return <hr key={key} />;
    case 'paragraph':
    case 'text':
      return <p key={key}>{drawInline(token.tokens ?? [token], depth)}</p>;
    default:
      return <p key={key}>{token.raw}</p>;
  }
}

function drawList({ ordered, start, items }: Tokens.List, key: number, depth: number) {
  const rows = items.map(({ tokens, task, checked }, index) => (
    <li key={index}>
      {task && (checked === true ? '☑ ' : '☐ ')}
      {tokens.map((token, place) =>
        token.type === 'text'
          ? drawInline(token.tokens ?? [token], depth + 1)
          : drawBlock(token, place, depth + 1),
      )}
    </li>
  ));
  return ordered ? h('ol', { key, start: start === '' ? 1 : start }, rows) : <ul key={key}>{rows}</ul>;
}

function drawTable({ header, rows }: Tokens.Table, key: number, depth: number) {
  const drawRow = (tag: 'th' | 'td', cells: readonly Tokens.TableCell[], place = 0) => (
    <tr key={place}>{cells.map(({ tokens }, index) => h(tag, { key: index }, drawInline(tokens, depth)))}</tr>
  );
  return (
    <div key={key} class="table">
      <table>
        <thead>{drawRow('th', header)}</thead>
        <tbody>{rows.map((cells, index) => drawRow('td', cells, index))}</tbody>
      </table>
    </div>
  );
}

function drawInline(tokens: readonly Token[] | undefined, depth: number): ComponentChildren {
  if (tokens === undefined || depth > DEEPEST) return tokens?.map(({ raw }) => raw).join('');
  return tokens.map((token, key) => {
    const inner = (): ComponentChildren =>
      drawInline('tokens' in token ? token.tokens : undefined, depth + 1);
    switch (token.type) {
      case 'strong':
      case 'em':
      case 'del':
        return h(token.type, { key }, inner());
      case 'codespan':
        return <code key={key}>{token.text}</code>;
      case 'br':
        return <br key={key} />;
      case 'escape':
        return token.text;
      case 'link':
        return drawLink(token as Tokens.Link, key, inner);
      case 'text':
        return token.tokens === undefined ? token.raw : inner();
      default:
        return token.raw;
    }
  });
}

/** Links lead only to web pages, show their target, and send no referrer. */
function drawLink({ href, raw }: Tokens.Link, key: number, inner: () => ComponentChildren) {
  if (!/^https?:\/\//i.test(href)) return raw;
  return (
    <a key={key} href={href} target="_blank" rel="noreferrer noopener nofollow" title={href}>
      {inner()}
    </a>
  );
}
