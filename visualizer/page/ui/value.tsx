import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { describeOutput, readContent } from '../../../protocol/content/read-content.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { formatCount, formatLength, formatLine, formatPreview, roundNumber } from '../render/format.ts';
import { Button } from './button.tsx';
import { CopyMenu } from './copy-menu.tsx';
import { Link } from './link.tsx';
import { Markdown } from './markdown.tsx';
import { MediaParts, Picture, readImageText } from './picture.tsx';
import { Details, isProse, LongText, MoreRows, ROWS, Safe } from './text.tsx';
import { isTable, ValueTable } from './value-table.tsx';

/** `path` is where the value is, as it is copied: `calls[0].input`. `kind` is how texts look. */
type ValueProps = {
  value: JsonValue;
  path: string;
  kind?: 'prose' | 'mono';
  depth?: number;
  isWhole?: boolean;
};

/** Levels that are open at first, unless they have more members. */
const OPEN = { levels: 2, members: 24 };
const SHORT = 200;
const PREVIEW = 60;
const LINE = 100;

/** A value from outside: images, texts, tables and trees. It takes no longer for large ones. */
export function Value({ value, path, kind = 'mono', depth = 0, isWhole = false }: ValueProps) {
  const image = readImageText(value);
  if (image !== null) return <Picture image={image} />;
  if (typeof value === 'string') return <Text text={value} kind={kind} />;
  const content = readContent(value);
  if (content !== undefined)
    return (
      <>
        {content.parts.map((part, at) =>
          part.type === 'text' ? (
            <Text key={at} text={part.text} kind={kind} />
          ) : (
            <MediaParts key={at} part={part} />
          ),
        )}
      </>
    );
  if (typeof value !== 'object' || value === null) return <Leaf value={value} />;
  return <Composite value={value} path={path} depth={depth} isWhole={isWhole} />;
}

function Text({ text, kind }: { text: string; kind: 'prose' | 'mono' }) {
  if (isAddress(text)) return <Link href={text} />;
  return <Markdown text={text} asSource kind={kind} />;
}

function isAddress(text: string): boolean {
  return text.length < 2_000 && /^https?:\/\/\S+$/i.test(text);
}

type CompositeProps = { value: JsonObject | JsonValue[]; path: string; depth: number; isWhole: boolean };

function Composite({ value, path, depth, isWhole }: CompositeProps) {
  const asTree = useSignal(isWhole);
  const rows = isTable(value) ? value : null;
  return (
    <div>
      {(rows !== null || depth === 0) && (
        <div class="value-head">
          <span class="muted">{describe(value)}</span>
          {rows !== null && (
            <Button
              class="quiet"
              label={asTree.value ? 'Table' : 'Tree'}
              onClick={() => (asTree.value = !asTree.peek())}
            />
          )}
          {depth === 0 && <CopyMenu path={path} value={value} />}
        </div>
      )}
      {rows !== null && !asTree.value ? (
        <ValueTable rows={rows} />
      ) : (
        <Members value={value} path={path} depth={depth} isWhole={isWhole} />
      )}
    </div>
  );
}

function Members({ value: of, path, depth, isWhole }: CompositeProps) {
  const shown = useSignal(ROWS);
  const names = useMemo(() => (Array.isArray(of) ? null : Object.keys(of)), [of]);
  const count = names?.length ?? Number(of.length);
  return (
    <>
      <ul class="members">
        {Array.from({ length: Math.min(count, shown.value) }, (_, at) => {
          const name = names?.[at] ?? at;
          const value = Reflect.get(of, name) as JsonValue;
          return (
            <Member
              key={name}
              name={name}
              value={value}
              path={pathTo(path, name)}
              depth={depth + 1}
              isWhole={isWhole}
            />
          );
        })}
      </ul>
      <MoreRows shown={shown} count={count} />
    </>
  );
}

type MemberProps = { name: string | number; value: JsonValue; path: string; depth: number; isWhole: boolean };

function Member({ name, value, path, depth, isWhole }: MemberProps) {
  const label = <Safe class="mono name" text={formatLine(String(name), SHORT)} />;
  const size = sizeOf(value);
  const isOpen = isWhole || (size !== null && depth < OPEN.levels && size <= OPEN.members);
  return (
    <li>
      {size === null ? (
        <p class="leaf">
          {label} <Leaf value={value} />
        </p>
      ) : (
        <Details
          open={isOpen}
          summary={
            <>
              {label}
              <span class="muted">{describe(value)}</span>
              <bdi class="mono muted preview">{formatPreview(value, PREVIEW)}</bdi>
            </>
          }
        >
          {() => <Value value={value} path={path} depth={depth} isWhole={isWhole} />}
        </Details>
      )}
      <CopyMenu path={path} value={value} />
    </li>
  );
}

/** The number of members, or of lines of a long text; `null` for what is shown in its line. */
function sizeOf(value: JsonValue): number | null {
  if (typeof value === 'string')
    return isProse(value) && !isAddress(value) ? Math.ceil(value.length / LINE) : null;
  if (typeof value !== 'object' || value === null) return null;
  return (Array.isArray(value) ? value.length : Object.keys(value).length) || null;
}

function describe(value: JsonValue): string {
  if (typeof value === 'string') return readImageText(value) === null ? formatLength(value.length) : 'image';
  if (Array.isArray(value)) return formatCount(value.length, 'item');
  return formatCount(Object.keys(Object(value)).length, 'key');
}

/** A value in its line, texts in quotation marks. */
function Leaf({ value }: { value: JsonValue }) {
  if (typeof value === 'string' && isAddress(value)) return <Link href={value} />;
  const text = typeof value === 'number' ? String(roundNumber(value)) : JSON.stringify(value);
  return <Safe class={`mono is-${typeof value}`} text={text} />;
}

function pathTo(path: string, name: string | number): string {
  if (typeof name === 'number') return `${path}[${name}]`;
  if (!/^[A-Za-z_$][\w$]*$/.test(name)) return `${path}[${JSON.stringify(name)}]`;
  return path === '' ? name : `${path}.${name}`;
}

/** A value below a line that says what it is and how it begins. */
export function FoldedValue({ what, value, path }: { what: string; value: JsonValue; path: string }) {
  const short = readContent(value) === undefined ? value : describeOutput(value);
  return (
    <Details summary={<Summary what={what} preview={formatPreview(short, LINE)} />}>
      {() => <Value value={value} path={path} />}
    </Details>
  );
}

export function Summary({ what, preview }: { what: string; preview: string }) {
  return (
    <>
      <span class="what">{what}</span>
      <bdi class="mono preview">{preview}</bdi>
    </>
  );
}

/** A value whose JSON is shorter is unfolded, in characters. */
const SMALL = 4_000;
/** More members than a person reads one below the other. */
const MOST_READABLE = 40;

/** A value that a person decides about: its texts as texts, its members by name. */
export function ReadableValue({ value, path }: { value: JsonValue; path: string }) {
  const isSmall = formatPreview(value, SMALL).length < SMALL;
  const isList = isJsonObject(value) && readImageText(value) === null && readContent(value) === undefined;
  const members = isList ? Object.entries(value) : [];
  if (members.length === 0 || members.length > MOST_READABLE)
    return <Value value={value} path={path} kind="prose" isWhole={isSmall} />;
  return (
    <dl class="readable">
      {members.map(([name, member]) => (
        <div key={name} class={sizeOf(member) === null ? 'line' : 'block'}>
          <dt>
            <Safe text={name} class="mono" />
            <CopyMenu path={pathTo(path, name)} value={member} />
          </dt>
          <dd>
            {typeof member === 'string' && sizeOf(member) === null && !isAddress(member) ? (
              <LongText text={member} kind="mono" />
            ) : (
              <Value value={member} path={pathTo(path, name)} kind="prose" depth={1} isWhole={isSmall} />
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}
