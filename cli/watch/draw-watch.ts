import type { Person } from '../../protocol/run-command.ts';
import type { InboxItem } from '../../protocol/run-view.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { KINDS, nameOf } from '../../visualizer/page/inbox/inbox-rows.ts';
import { describeWait } from '../commands/runs.ts';
import { formatSpan, showSafely } from '../render/format.ts';
import { bold, cyan, dim, type Segment, type Style } from '../render/output.ts';
import { STATUS_STYLES } from '../render/show-open.ts';
import { type Board, describeDifference, describeWho, isOpenFor } from './board.ts';
import { describeItem, describeRecord } from './describe-decision.ts';
import type { Line, Size } from './screen.ts';
import { fitText, widthOf, wrapText, wrapWords } from './text-width.ts';
import type { OpenedRow, Pane, WatchView } from './watch-session.ts';

type Drawing = { view: WatchView; person: Person; store: string; now: number };

/** A terminal of so many columns shows what is opened beside the lists; a narrower one in their place. */
const BESIDE = 110;
/** From so many columns on, a list has a column for each fact. */
const COLUMNS = 76;
const MOST_MESSAGE_LINES = 8;
const GAP = '  ';
const AGE = 7;

/** The lines of the screen, each of its width, and how far what is opened scrolls. */
export function drawWatch(drawing: Drawing, { columns, rows }: Size): { lines: Line[]; mostScroll: number } {
  const { view } = drawing;
  const message = drawMessage(view, columns);
  const height = Math.max(1, rows - 2 - message.length);
  const frame = (body: readonly Line[]) => [
    drawHead(drawing, columns),
    ...Array.from({ length: height }, (_, row) => body[row] ?? [' '.repeat(columns)]),
    ...message,
    drawKeys(view, columns),
  ];
  if (view.opened === null) return { lines: frame(drawLists(drawing, columns, height)), mostScroll: 0 };
  const left = columns < BESIDE ? 0 : Math.floor((columns - 3) / 2);
  const right = left === 0 ? columns : columns - left - 3;
  const { shown, mostScroll } = drawOpened(drawing, view.opened, { columns: right, rows: height });
  if (left === 0) return { lines: frame(shown), mostScroll };
  const lists = drawLists(drawing, left, height);
  const besides = Array.from({ length: height }, (_, row): Line => {
    const list = lists[row] ?? [' '.repeat(left)];
    return [...list, dim(' │ '), ...(shown[row] ?? [])];
  });
  return { lines: frame(besides), mostScroll };
}

function drawHead({ view: { board, filter }, store }: Drawing, columns: number): Line {
  const { counts } = board;
  const facts = [
    ...(counts === undefined ? [] : [`${counts.running} running`, `${counts.waiting} waiting`]),
    ...(filter === '' ? [] : [`filter: ${filter}`]),
    store,
  ];
  const title = 'agentchart';
  return [bold(title), dim(cell(` · ${facts.join(' · ')}`, columns - title.length))];
}

function drawMessage({ asked, notice, problem, field }: WatchView, columns: number): Line[] {
  if (field !== null) {
    const typed = `${field.label}: ${field.text}`;
    const lines = wrapText(showSafely(typed), columns - 1);
    return lines
      .slice(-MOST_MESSAGE_LINES)
      .map((text, at, all): Line => [text, at === all.length - 1 ? '_' : '']);
  }
  const style: Style = asked === '' && problem === '' ? 'dim' : 'yellow';
  const lines = wrapWords(showSafely(asked || problem || notice), columns);
  return lines.slice(0, MOST_MESSAGE_LINES).map(text => [{ style, text: fitText(text, columns) }]);
}

function drawKeys(view: WatchView, columns: number): Line {
  return [dim(cell(nameKeys(view, columns), columns))];
}

function nameKeys({ opened, field }: WatchView, columns: number): string {
  if (field !== null) return 'Enter done  Esc leave';
  if (opened !== null && columns < COLUMNS) return 'a/r/e decide  n/p other  Esc back  q quit';
  if (opened !== null) return 'a approve  r reject  e answer  n next  p previous  Esc back  q quit';
  if (columns < COLUMNS) return 'a/r/e decide  Enter open  / find  q quit';
  return 'Enter open  a approve  r reject  e answer  Tab other list  / filter  q quit';
}

function drawLists(drawing: Drawing, columns: number, height: number): Line[] {
  const { board, pane } = drawing.view;
  const forInbox = Math.min(Math.max(1, board.items.length), Math.max(1, Math.ceil((height - 3) / 2)));
  const forRuns = Math.max(1, height - 3 - forInbox);
  const spare = Math.max(0, forRuns - Math.max(1, board.runs.length));
  const inboxRows = Math.min(Math.max(1, board.items.length), forInbox + spare);
  const mine = board.items.filter(({ call }) => isOpenFor(drawing.person, call)).length;
  const waiting = `${count(board.items.length, board.more.items)}${mine === board.items.length ? '' : `, ${mine} for you`}`;
  return [
    drawTitle('Inbox', waiting, pane === 'inbox', columns),
    ...drawRows(drawing, 'inbox', board.items, { columns, rows: inboxRows }, drawItem, 'Nothing to decide.'),
    [cell('', columns)],
    drawTitle('Runs', count(board.runs.length, board.more.runs), pane === 'runs', columns),
    ...drawRows(drawing, 'runs', board.runs, { columns, rows: height - 3 - inboxRows }, drawRun, 'No runs.'),
  ].slice(0, height);
}

function count(shown: number, isMore: boolean): string {
  return `${shown}${isMore ? '+' : ''}`;
}

function drawTitle(title: string, facts: string, isFocused: boolean, columns: number): Line {
  const rest = cell(` ${facts}`, columns - title.length);
  return [isFocused ? cyan(title) : bold(title), dim(rest)];
}

type DrawRow<Row> = (row: Row, columns: number, drawing: Drawing) => Line;

/** The rows around the chosen one. */
function drawRows<Row>(
  { view, ...drawing }: Drawing,
  pane: Pane,
  all: readonly Row[],
  { columns, rows }: Size,
  draw: DrawRow<Row>,
  nothing: string,
): Line[] {
  if (rows <= 0) return [];
  if (all.length === 0) return [[dim(cell(`  ${nothing}`, columns))]];
  const chosen = view.chosen[pane];
  const from = Math.max(0, Math.min(chosen - Math.floor(rows / 2), all.length - rows));
  return all.slice(from, from + rows).map((row, at): Line => {
    const isChosen = from + at === chosen;
    const drawn = draw(row, columns - 2, { view, ...drawing });
    if (!isChosen) return ['  ', ...drawn];
    const mark = view.pane === pane ? '› ' : '· ';
    if (view.pane !== pane) return [mark, ...drawn];
    return [mark, ...drawn.map(part => ({ style: 'inverse' as const, text: textOf(part) }))];
  });
}

const textOf = (segment: Segment): string => (typeof segment === 'string' ? segment : segment.text);

const drawItem: DrawRow<InboxItem> = (item, columns, { person, now }) => {
  const { kind, call, title, agent, since } = item;
  const name = nameOf(call);
  const isMine = isOpenFor(person, call);
  const kindCell = { style: kindStyle(kind, isMine), text: cell(KINDS[kind], 8) };
  const facts = [describeDifference(item), ...(isMine ? [] : [describeWho(item) || 'for others'])].join(
    ' · ',
  );
  const age = formatSpan(now - since);
  if (columns < COLUMNS)
    return [kindCell, ' ', cell(`${name} ${facts}`, columns - AGE - 10), ' ', cellRight(age, AGE)];
  const flexible = columns - 8 - 16 - AGE - 4 * GAP.length;
  const forFacts = Math.floor(flexible * 0.6);
  return [
    kindCell,
    GAP,
    cell(name, 16),
    GAP,
    cell(facts, forFacts),
    GAP,
    dim(cell(title || agent, flexible - forFacts)),
    GAP,
    cellRight(age, AGE),
  ];
};

function kindStyle(kind: InboxItem['kind'], isMine: boolean): Style {
  if (kind === 'doubt') return 'red';
  return isMine ? 'yellow' : 'dim';
}

const drawRun: DrawRow<RunRecord> = (record, columns, { now }) => {
  const { status, title, agent, createdAt, errorCode } = record;
  const statusCell = { style: STATUS_STYLES[status], text: cell(status, 9) };
  const waits = errorCode ?? describeWait(record);
  const age = formatSpan(now - createdAt);
  if (columns < COLUMNS) {
    const facts = [title || agent, ...(waits === '' ? [] : [waits])].join(' · ');
    return [statusCell, ' ', cell(facts, columns - AGE - 11), ' ', cellRight(age, AGE)];
  }
  const flexible = columns - 9 - 14 - AGE - 4 * GAP.length;
  const forTitle = Math.floor(flexible * 0.6);
  return [
    statusCell,
    GAP,
    cell(title, forTitle),
    GAP,
    dim(cell(agent, 14)),
    GAP,
    cell(waits, flexible - forTitle),
    GAP,
    cellRight(age, AGE),
  ];
};

/** The text on one line in exactly so many cells, safe for a terminal. */
function cell(text: string, width: number): string {
  return fitText(
    showSafely(
      text
        .slice(0, 4 * Math.max(0, width))
        .replace(/\s+/gu, ' ')
        .trimEnd(),
    ),
    width,
  );
}

function cellRight(text: string, width: number): string {
  const shown = fitText(text, width).trimEnd();
  return ' '.repeat(Math.max(0, width - widthOf(shown))) + shown;
}

/** What is opened, wrapped, from the line `scroll` on; the last line says how much there is. */
function drawOpened(
  { view: { scroll, board }, now }: Drawing,
  opened: OpenedRow,
  { columns, rows }: Size,
): { shown: Line[]; mostScroll: number } {
  const wrapped = wrapOpened(opened, board, { columns, now });
  if (wrapped.length <= rows) return { shown: wrapped.map(line => padLine(line, columns)), mostScroll: 0 };
  const space = Math.max(1, rows - 1);
  const mostScroll = wrapped.length - space;
  const from = Math.min(scroll, mostScroll);
  const shown = wrapped.slice(from, from + space).map(line => padLine(line, columns));
  const place = `lines ${from + 1}–${from + space} of ${wrapped.length}`;
  return { shown: [...shown, [dim(cell(place, columns))]], mostScroll };
}

/** What is opened is wrapped again once the times in it are old: an input may be a megabyte. */
const WRAPPED_MS = 5_000;
const WRAPPED = new WeakMap<object, { columns: number; at: number; lines: Line[] }>();

function wrapOpened(
  opened: OpenedRow,
  board: Board,
  { columns, now }: { columns: number; now: number },
): Line[] {
  const subject = 'item' in opened ? opened.item : opened.record;
  const known = WRAPPED.get(subject);
  if (known?.columns === columns && now - known.at < WRAPPED_MS) return known.lines;
  const described =
    'item' in opened
      ? describeItem(opened.item, board.records.get(opened.item.runId), now)
      : describeRecord(opened.record, now);
  const lines = described.flatMap(line => wrapLine(line, columns));
  WRAPPED.set(subject, { columns, at: now, lines });
  return lines;
}

function wrapLine(line: Line, columns: number): Line[] {
  const lines: Segment[][] = [[]];
  let used = 0;
  for (const segment of line) {
    let rest = showSafely(textOf(segment));
    while (rest !== '') {
      if (used >= columns) {
        lines.push([]);
        used = 0;
      }
      const [part = ''] = wrapText(rest, columns - used);
      if (used > 0 && widthOf(part) > columns - used) {
        used = columns;
        continue;
      }
      lines.at(-1)?.push(typeof segment === 'string' ? part : { ...segment, text: part });
      used += widthOf(part);
      rest = rest.slice(part.length);
      if (rest !== '') used = columns;
    }
  }
  return lines;
}

function padLine(line: Line, columns: number): Line {
  const used = line.reduce((sum, segment) => sum + widthOf(textOf(segment)), 0);
  return [...line, ' '.repeat(Math.max(0, columns - used))];
}
