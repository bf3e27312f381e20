// biome-ignore-all lint/a11y/useSemanticElements lint/a11y/useFocusableInteractive: the rows of a table element cannot be placed, and keep their meaning only with roles.
import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useShortcuts } from '../app/keyboard.ts';
import { setQuery } from '../app/router.ts';
import { mayOperate } from '../data/caller.ts';
import { type RunSummary, requestServer, runPath, sessionPath, threadOf } from '../data/request.ts';
import { formatCount, showSafe } from '../render/format.ts';
import { Button, Icon } from '../ui/button.tsx';
import { Safe } from '../ui/text.tsx';
import { type Column, shownColumns } from './columns.tsx';
import type { RunFilter } from './run-filter.ts';
import type { FoldedRow, RunPages } from './run-pages.ts';

const ROW_PX = 36;
const CARD_PX = 64;
/** Narrower windows have cards of two lines instead of columns. */
const CARDS_BELOW = 880;
const SPARE = 6;

type Chosen = Signal<ReadonlySet<string>>;

/** The runs of a list as long as it is, of which only the rows in sight are in the document. The window scrolls. */
export function RunTable({ pages, chosen }: { pages: RunPages; chosen: Chosen }) {
  const width = useWindowWidth();
  const isCards = width < CARDS_BELOW;
  const height = isCards ? CARD_PX : ROW_PX;
  const columns = shownColumns(width);
  const opened = useSignal<Opened>(new Map());
  const count = pages.count + [...opened.value.values()].reduce((sum, below) => sum + below.length, 0);
  const box = useRef<HTMLDivElement>(null);
  const [first, last] = useSight(box, height, count);
  useEffect(() => pages.look(first, last), [pages, first, last, count]);
  useKeptPlace(box, pages, height);
  useRowKeys(box);
  const rows = placesOf(pages, opened.value, first, last);
  const template = columns.map(column => column.width).join(' ');
  return (
    <div
      role="table"
      class={isCards ? 'run-table is-cards' : 'run-table'}
      aria-label="Runs"
      aria-rowcount={count + 1}
      style={{ '--columns': template }}
    >
      <div role="rowgroup" class="heads">
        <div role="row" class="run-row">
          <span role="columnheader" class="choose">
            <span class="spoken">Choose</span>
          </span>
          {columns.map(column => (
            <Head key={column.name} column={column} filter={pages.filter} />
          ))}
        </div>
      </div>
      <div role="rowgroup" ref={box} class="rows" style={{ height: `${count * height}px` }}>
        {rows.map(({ index, run, isBelow }) => {
          const folded = run && !isBelow ? pages.folded.value.get(run.runId) : undefined;
          return (
            <div
              key={run?.runId ?? index}
              role="row"
              class={isBelow ? 'run-row is-below' : 'run-row'}
              aria-rowindex={index + 2}
              style={{ transform: `translateY(${index * height}px)`, height: `${height}px` }}
            >
              {run === undefined ? (
                <div role="cell" class="unread">
                  <span class="spoken">Not read yet</span>
                </div>
              ) : (
                <Cells run={run} columns={columns} chosen={chosen} folded={folded} opened={opened} />
              )}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Head({ column: { name, title, sort }, filter }: { column: Column; filter: RunFilter }) {
  if (sort === undefined)
    return (
      <span role="columnheader" class={`c-${name}`}>
        {title}
      </span>
    );
  const [by, first] = sort;
  const order = filter.sort === by ? filter.order || 'desc' : null;
  const other = first === 'asc' ? 'desc' : 'asc';
  const said = order === 'asc' ? 'ascending' : 'descending';
  const press = (): void => {
    if (order === other) setQuery({ sort: null, order: null });
    else setQuery({ sort: by, order: order === null ? first : other });
  };
  return (
    <span role="columnheader" class={`c-${name}`} aria-sort={order === null ? 'none' : said}>
      <button type="button" class="head" onClick={press}>
        {title}
        {order !== null && <Icon name={order === 'asc' ? 'up' : 'down'} />}
      </button>
    </span>
  );
}

/** The sub-agents' runs of rows that are open, by the id of the row's run. */
type Opened = ReadonlyMap<string, readonly RunSummary[]>;

type Place = { index: number; run: RunSummary | undefined; isBelow: boolean };

/** The rows from one place to another, with those that are open below their row. */
function placesOf(pages: RunPages, opened: Opened, first: number, last: number): Place[] {
  const open = [...opened]
    .map(([runId, below]) => ({ at: pages.indexOf(runId), below }))
    .filter(({ at }) => at >= 0)
    .toSorted((one, other) => one.at - other.at);
  return Array.from({ length: Math.max(0, last - first) }, (_, place) => {
    const index = first + place;
    let before = 0;
    for (const { at, below } of open) {
      const inside = index - before - at - 1;
      if (inside < 0) break;
      if (inside < below.length) return { index, run: below[inside], isBelow: true };
      before += below.length;
    }
    return { index, run: pages.at(index - before), isBelow: false };
  });
}

type CellsProps = {
  run: RunSummary;
  columns: readonly Column[];
  chosen: Chosen;
  folded: FoldedRow | undefined;
  opened: Signal<Opened>;
};

function Cells({ run, columns, chosen, folded, opened }: CellsProps) {
  const { together, subAgents = 0 } = folded ?? {};
  const shown: RunSummary = together === undefined ? run : { ...together.latest, ...sumsOf(together) };
  const title = showSafe(together?.title || run.title || run.runId);
  const toggle = (isOn: boolean): void => {
    const ids = new Set(chosen.peek());
    if (isOn) ids.add(run.runId);
    else ids.delete(run.runId);
    chosen.value = ids;
  };
  return (
    <>
      <div role="cell" class="choose">
        <input
          type="checkbox"
          aria-label={`Choose ${title}`}
          checked={chosen.value.has(run.runId)}
          onChange={event => toggle(event.currentTarget.checked)}
        />
      </div>
      {columns.map(({ name, cell }) => (
        <div key={name} role="cell" class={`c-${name}`}>
          {name === 'title' ? (
            <>
              <a class="open" href={pathOf(run, together)}>
                <Safe text={title} />
              </a>
              {together && (
                <span class="muted">{`${together.kind} · ${formatCount(together.runs, 'run')}`}</span>
              )}
              {subAgents > 0 && <SubAgents runId={run.runId} count={subAgents} opened={opened} />}
            </>
          ) : (
            cell(shown)
          )}
        </div>
      ))}
    </>
  );
}

const sumsOf = ({ tokens, cost, activeMs }: NonNullable<FoldedRow['together']>) => ({
  tokens,
  cost,
  activeMs,
});

/** The address of the run's view, or of that of its thread or session. */
function pathOf(run: RunSummary, together: FoldedRow['together']): string {
  if (together === undefined) return runPath(run.runId);
  return together.kind === 'thread' ? threadOf(run) : sessionPath(run.labels.session ?? '');
}

type SubAgentsProps = { runId: string; count: number; opened: Signal<Opened> };

/** Opens the runs of a run's sub-agents below its row, and closes them. */
function SubAgents({ runId, count, opened }: SubAgentsProps) {
  const isOpen = opened.value.has(runId);
  const press = async (): Promise<void> => {
    const others = new Map(opened.peek());
    if (!others.delete(runId)) {
      const query = new URLSearchParams({ parent: runId, limit: '1000', order: 'asc' });
      others.set(runId, (await requestServer<{ runs: RunSummary[] }>(`/runs?${query}`)).runs);
    }
    opened.value = others;
  };
  return (
    <Button
      class="chip sub"
      aria-expanded={isOpen}
      label={formatCount(count, 'sub-agent')}
      onClick={() => void press().catch(() => {})}
    />
  );
}

function useWindowWidth(): number {
  const width = useSignal(innerWidth);
  useEffect(() => {
    const look = () => (width.value = innerWidth);
    addEventListener('resize', look);
    return () => removeEventListener('resize', look);
  }, []);
  return width.value;
}

/** The rows in sight, and some around them: the first, and the one after the last. */
function useSight(box: { current: HTMLElement | null }, height: number, count: number): [number, number] {
  const sight = useSignal({ top: 0, height: innerHeight });
  useLayoutEffect(() => {
    const look = (): void => {
      const top = -(box.current?.getBoundingClientRect().top ?? 0);
      // Rows are drawn again after some rows, not with each pixel.
      const seen = Math.floor(top / height / (SPARE / 2)) * (SPARE / 2) * height;
      const now = sight.peek();
      if (now.top !== seen || now.height !== innerHeight) sight.value = { top: seen, height: innerHeight };
    };
    const soon = requestAnimationFrame(look);
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look);
    return () => {
      cancelAnimationFrame(soon);
      removeEventListener('scroll', look);
      removeEventListener('resize', look);
    };
  }, [height, count]);
  const { top, height: seen } = sight.value;
  const first = Math.max(0, Math.floor(top / height) - SPARE);
  return [first, Math.min(count, Math.ceil((top + seen) / height) + 2 * SPARE)];
}

/** Scrolls with the runs in sight when others come or go above them, unless the list is at its top. */
function useKeptPlace(box: { current: HTMLElement | null }, pages: RunPages, height: number): void {
  const seen = useRef<readonly (readonly [runId: string, index: number])[]>([]);
  useLayoutEffect(() => {
    const isAtTop = seen.current.length === 0 || (box.current?.getBoundingClientRect().top ?? 0) >= 0;
    for (const [runId, index] of isAtTop ? [] : seen.current) {
      const now = pages.indexOf(runId);
      if (now < 0) continue;
      if (now !== index) scrollBy(0, (now - index) * height);
      break;
    }
  }, [pages.version.value]);
  useLayoutEffect(() => {
    const remember = (): void => {
      const top = -(box.current?.getBoundingClientRect().top ?? 0);
      const first = Math.max(0, Math.ceil(top / height));
      seen.current = Array.from({ length: 20 }, (_, place) => first + place).flatMap(index => {
        const run = pages.at(index);
        return run === undefined ? [] : [[run.runId, index] as const];
      });
    };
    const soon = requestAnimationFrame(remember);
    addEventListener('scroll', remember, { passive: true });
    return () => {
      cancelAnimationFrame(soon);
      removeEventListener('scroll', remember);
    };
  }, [pages, pages.version.value, height]);
}

function useRowKeys(box: { current: HTMLElement | null }): void {
  const move = (by: number): void => {
    const links = [...(box.current?.querySelectorAll<HTMLElement>('.open') ?? [])];
    const shown = links
      .map(link => ({ link, top: link.getBoundingClientRect().top }))
      .toSorted((one, other) => one.top - other.top);
    const at = shown.findIndex(({ link }) => link.closest('.run-row')?.contains(document.activeElement));
    const next = at < 0 ? shown.find(({ top }) => top > 0) : shown[at + by];
    next?.link.focus();
  };
  const choose = (): void => document.activeElement?.closest('.run-row')?.querySelector('input')?.click();
  useShortcuts('List of runs', [
    { keys: ['j', 'ArrowDown'], does: 'Next run', repeats: true, run: () => move(1) },
    { keys: ['k', 'ArrowUp'], does: 'Previous run', repeats: true, run: () => move(-1) },
    ...(mayOperate() ? [{ keys: ['x'], does: 'Choose the run', run: choose }] : []),
  ]);
}
