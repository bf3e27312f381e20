// visualizer/page/inbox: the open decisions of all runs.

import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { isOpenItem } from '../../../protocol/run-view.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { navigate, renameAddress, useTitle } from '../app/router.ts';
import { watchMedia } from '../app/watch-media.ts';
import { isMine, mayOperate } from '../data/caller.ts';
import { type InboxItem, runPath } from '../data/request.ts';
import { readListPages, useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { formatCount, showSafe } from '../render/format.ts';
import { OvertakenNotes, useOvertaken } from '../run/decisions/open-decisions.tsx';
import { Icon } from '../ui/button.tsx';
import { ProblemText } from '../ui/text.tsx';
import { ActionButton } from '../ui/two-presses.tsx';
import { Decision, decisionKeyIn } from './decision.tsx';
import { Filters, SearchField } from './filters.tsx';
import { InboxList } from './inbox-list.tsx';
import {
  addressOf,
  filterRows,
  groupRows,
  type InboxLine,
  inboxKeyOf,
  readFilter,
  rowKey,
  sortRows,
} from './inbox-rows.ts';
import { useSteadyRows } from './steady-rows.ts';
import { Together } from './together.tsx';

/** Runs in a page of the server's, and how many pages are read at once. */
const RUNS = 200;
const PAGES = 3;

/** Whether a decision fills the window. */
const narrow = watchMedia('(width < 900px)');

export const isMyTurn = ({ call }: InboxItem): boolean => (isOpenItem(call) ? isMine(call) : mayOperate());

type InboxProps = {
  source: PageSource;
  shown: { runId: string; callId: string } | null;
  query: URLSearchParams;
};

export function InboxView({ source, shown, query }: InboxProps) {
  const pages = useMemo(() => ({ read: PAGES }), []);
  const { answer, problem, again } = useRead(
    () => readListPages<'items', InboxItem>(`/inbox?limit=${RUNS}&order=asc`, pages.read, 'items'),
    [],
  );
  useNews(source, ['ready', 'inbox', 'removed'], again);
  const readMore = (): Promise<void> => {
    pages.read += PAGES;
    return again();
  };
  const isNarrow = narrow.value;
  const notice = useSignal<readonly string[]>([]);
  const selected = useSignal<ReadonlySet<string>>(new Set());
  const isSelecting = useSignal(false);
  const list = useRef<HTMLDivElement>(null);
  const all = answer?.found ?? [];
  const steady = useSteadyRows(sortRows(all, isMyTurn));
  const rows = filterRows(steady.rows, readFilter(query), isMyTurn);
  const groups = groupRows(rows);
  const order = groups.flatMap(group => group.rows);
  const search = query.size === 0 ? '' : `?${query}`;

  const chosen = shown === null ? null : rowKey(shown);
  const place = useRef(0);
  const found = order.findIndex(({ key }) => key === chosen);
  const at = found < 0 ? Math.max(0, Math.min(place.current, order.length - 1)) : found;
  if (order.length > 0) place.current = at;
  const hidden = found < 0 ? steady.rows.find(({ key }) => key === chosen) : undefined;
  const row = hidden ?? (isNarrow && chosen !== null ? order[found] : order[at]);
  const isAlone = isNarrow && chosen !== null;
  useEffect(() => {
    if (answer === null || chosen === null || found >= 0 || hidden !== undefined || isNarrow) return;
    notice.value = ['Resolved elsewhere.'];
    renameAddress(row === undefined ? `/inbox${search}` : addressOf(row.item, search));
  }, [answer, row?.key, isNarrow]);
  const open = all.map(({ call }) => call).filter(isOpenItem);
  useOvertaken(open, row && isOpenItem(row.item.call) && !row.isGone ? row.item.call : undefined);
  useTitle('Inbox');
  useKeptScroll(isAlone);

  const choose = (key: string): void => {
    const next = order.find(one => one.key === key);
    if (next !== undefined && !isNarrow) renameAddress(addressOf(next.item, search));
  };
  const step = (by: number): void => {
    const next = order[Math.min(Math.max(0, at + by), order.length - 1)];
    if (next === undefined) return;
    if (isAlone) return renameAddress(addressOf(next.item, search));
    choose(next.key);
    focusRow(list.current, next.key);
  };
  useShortcuts('Inbox', [
    { keys: ['j', 'ArrowDown'], does: 'Next decision', repeats: true, run: () => step(1) },
    { keys: ['k', 'ArrowUp'], does: 'Previous decision', repeats: true, run: () => step(-1) },
    { keys: ['o'], does: 'Open the run', run: () => row !== undefined && navigate(runPath(row.item.runId)) },
    { keys: ['/'], does: 'Search', run: () => document.querySelector<HTMLElement>('.inbox-search')?.focus() },
  ]);
  /** Shows the row after the current one, once `done` are decided. */
  const goOn = async (done: readonly string[], words: readonly string[]): Promise<void> => {
    const isLeft = ({ key, isGone }: InboxLine): boolean => !isGone && !done.includes(key);
    const left = [...order.slice(at), ...order.slice(0, at).toReversed()].filter(isLeft);
    const [next] = left;
    notice.value = words;
    selected.value = new Set();
    isSelecting.value = false;
    if (isNarrow && isAlone) navigate(`/inbox${search}`);
    else if (!isNarrow) renameAddress(next === undefined ? `/inbox${search}` : addressOf(next.item, search));
    await again();
    steady.settle();
    requestAnimationFrame(() => {
      if (!left.some(({ key }) => focusRow(list.current, key)))
        document.querySelector<HTMLElement>('main h1')?.focus();
    });
  };
  const marked = order.filter(({ key, isGone }) => selected.value.has(key) && !isGone);
  const hasList = !isNarrow || isSelecting.value;
  return (
    <main class="inbox">
      <div ref={list} class="inbox-list" hidden={isAlone}>
        <header>
          <h1 tabIndex={-1}>Inbox</h1>
          <span class="muted">{describeCount(order.length, all.length, steady.newer)}</span>
          {isNarrow && (
            <button
              type="button"
              class="quiet"
              aria-pressed={isSelecting.value}
              onClick={() => {
                selected.value = new Set();
                isSelecting.value = !isSelecting.peek();
              }}
            >
              Select
            </button>
          )}
        </header>
        <SearchField filter={readFilter(query)} />
        <Filters filter={readFilter(query)} items={all} />
        <div class="notice" role="status">
          {notice.value.map(words => (
            <p key={words}>{showSafe(words)}</p>
          ))}
        </div>
        <OvertakenNotes />
        <ProblemText text={problem} />
        <InboxList
          groups={groups}
          shown={isNarrow ? null : (row?.key ?? null)}
          search={search}
          selected={hasList ? selected : null}
          isPicking={isNarrow}
          onChoose={choose}
          holds={steady.holds}
        />
        {order.length === 0 && (answer !== null || problem !== '') && (
          <p class="empty">
            {all.length === 0
              ? 'Nothing to decide. Runs that need a person appear here.'
              : 'No decision matches. Change the search or the filters.'}
          </p>
        )}
        {answer?.next !== undefined && <ActionButton label="Show more" act={readMore} />}
      </div>
      {marked.length > 1 ? (
        <Together
          items={marked.map(({ item }) => item)}
          onDone={goOn}
          onClear={() => (selected.value = new Set())}
        />
      ) : (
        (isAlone || !isNarrow) && (
          <div class="inbox-decision">
            {isAlone && (
              <a class="back" href={`/inbox${search}`}>
                <Icon name="left" /> Inbox
              </a>
            )}
            {row === undefined ? (
              isAlone && answer !== null && <NoLongerOpen runId={shown?.runId ?? ''} />
            ) : (
              <Decision
                key={decisionKeyIn(row.item)}
                item={row.item}
                isGone={row.isGone}
                onTaken={words => goOn([inboxKeyOf(row.item)], [words])}
              />
            )}
          </div>
        )
      )}
    </main>
  );
}

function NoLongerOpen({ runId }: { runId: string }) {
  return (
    <div class="missing" role="status">
      <h2>No longer open</h2>
      <p>A person has decided it, or the run has ended or continued without it.</p>
      <a href={runPath(runId)}>Open the run</a>
    </div>
  );
}

function describeCount(shown: number, all: number, newer: number): string {
  const more = newer === 0 ? '' : `, ${newer} new`;
  return shown === all - newer
    ? `${all - newer || ''}${more}`
    : `${formatCount(shown, 'match', 'matches')}${more}`;
}

function focusRow(list: HTMLElement | null, key: string): boolean {
  const rows = [...(list?.querySelectorAll<HTMLElement>('[data-key]:not(.is-gone)') ?? [])];
  const row = rows.find(one => one.dataset.key === key);
  row?.focus();
  return row !== undefined;
}

/** Keeps the place in the list while a decision fills the window. */
function useKeptScroll(isAlone: boolean): void {
  const top = useRef(0);
  useLayoutEffect(() => {
    if (isAlone) return;
    const note = () => (top.current = scrollY);
    document.addEventListener('scroll', note);
    return () => document.removeEventListener('scroll', note);
  }, [isAlone]);
  useLayoutEffect(() => scrollTo(0, isAlone ? 0 : top.current), [isAlone]);
}
