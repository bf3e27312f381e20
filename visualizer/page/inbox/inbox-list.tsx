import type { Signal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { describeApprovals, describeDuties, hasDuties } from '../../../machines/duties.ts';
import { isOpenItem } from '../../../protocol/run-view.ts';
import { useShortcuts } from '../app/keyboard.ts';
import { isMine } from '../data/caller.ts';
import { formatAgo, formatDay, formatLine, joinFacts, showSafe } from '../render/format.ts';
import { Safe } from '../ui/text.tsx';
import { addressOf, describeRows, type InboxLine, KINDS, nameOf, type RowGroup } from './inbox-rows.ts';
import type { useSteadyRows } from './steady-rows.ts';

type InboxListProps = {
  groups: readonly RowGroup[];
  /** The row whose decision is beside the list. */
  shown: string | null;
  /** The query of the address. */
  search: string;
  /** The selected rows; `null`: rows are links and nothing can be selected. */
  selected: Signal<ReadonlySet<string>> | null;
  /** A press on a row selects it, instead of showing it. */
  isPicking: boolean;
  onChoose(key: string): void;
  holds: ReturnType<typeof useSteadyRows>['holds'];
};

/**
 * A listbox with several selections, or a list of links.
 *
 * L1 The row with the focus is the one that is shown. Arrows move it and change no selection.
 * L2 Space, `x` and Ctrl with a press add a row or take it out; Shift selects from the row of the last of these, or of the
 *    last press, to the row; Ctrl+A selects what is shown. Escape ends all selections.
 */
export function InboxList({ groups, shown, search, selected, isPicking, onChoose, holds }: InboxListProps) {
  const rows = groups.flatMap(group => group.rows);
  const keys = rows.filter(({ isGone }) => !isGone).map(({ key }) => key);
  const anchor = useRef<string | null>(null);
  const words = describeRows(rows);
  const first = shown ?? keys[0];
  const toggle = (key: string): void => {
    if (selected === null || !keys.includes(key)) return;
    const next = new Set(selected.peek());
    if (!next.delete(key)) next.add(key);
    anchor.current = key;
    selected.value = next;
  };
  const extendTo = (key: string): void => {
    if (selected === null) return;
    const ends = [keys.indexOf(anchor.current ?? shown ?? key), keys.indexOf(key)].sort((a, b) => a - b);
    selected.value = new Set(keys.slice(Math.max(0, ends[0] ?? 0), (ends[1] ?? 0) + 1));
  };
  const focus = (list: HTMLElement, place: number): string | undefined => {
    const options = [...list.querySelectorAll<HTMLElement>('[role="option"]')];
    const option = options[Math.min(Math.max(0, place), options.length - 1)];
    option?.focus();
    return option?.dataset.key;
  };
  const onKeyDown = (event: KeyboardEvent & { currentTarget: HTMLElement }): void => {
    const isChord = event.ctrlKey || event.metaKey;
    if (selected === null || event.altKey) return;
    const current = keyOfRow(event.target);
    const at = rows.findIndex(({ key }) => key === current);
    const places: Readonly<Record<string, number>> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: rows.length - 1,
    };
    const place = places[event.key];
    if (place !== undefined) {
      if (event.shiftKey) anchor.current ??= current ?? null;
      const key = focus(event.currentTarget, place);
      if (event.shiftKey && key !== undefined) extendTo(key);
      else if (!event.shiftKey) anchor.current = null;
    } else if (event.key === ' ' && current !== undefined) toggle(current);
    else if (isChord && event.key === 'a') selected.value = new Set(keys);
    else if (event.key === 'Escape' && selected.peek().size > 0) selected.value = new Set();
    else return;
    event.preventDefault();
  };
  const onClick = (event: MouseEvent): void => {
    if (selected === null || !(event.target instanceof Element)) return;
    const key = keyOfRow(event.target);
    const head = event.target.closest<HTMLElement>('.inbox-head');
    event.preventDefault();
    if (head !== null) {
      const group = groups.find(one => one.key === head.parentElement?.dataset.group);
      selected.value = new Set(group?.rows.map(row => row.key).filter(one => keys.includes(one)));
    }
    if (key === undefined) return;
    if (event.shiftKey) return extendTo(key);
    const isPick = isPicking || event.target.closest('.pick') !== null;
    if (!isPick && !event.ctrlKey && !event.metaKey) {
      anchor.current = key;
      return onChoose(key);
    }
    const before = anchor.current;
    // The row of the last press belongs to what is added to it.
    if (!isPick && selected.peek().size === 0 && before !== null && before !== key) toggle(before);
    toggle(key);
  };
  useShortcuts('Select', [
    {
      keys: ['x'],
      does: 'Select or deselect (also Space; Shift with arrows; Ctrl+A)',
      run: () => shown !== null && toggle(shown),
    },
  ]);
  const drawRow = (row: InboxLine, hasTitle: boolean) => (
    <InboxRow
      key={row.key}
      row={row}
      hasTitle={hasTitle}
      words={words.get(row.key) ?? ''}
      href={addressOf(row.item, search)}
      isShown={row.key === shown}
      isSelected={selected === null ? null : selected.value.has(row.key)}
      isFirst={row.key === first}
      onFocus={() => selected !== null && !isPicking && onChoose(row.key)}
    />
  );
  const drawHead = (title: string, count: number) => (
    <>
      <Safe text={title} class="title" /> <span>{count}</span>
    </>
  );
  if (selected === null)
    return (
      <ul aria-label="Inbox" class="inbox-rows">
        {groups.map(({ key, title, rows: members }) => [
          title !== undefined && (
            <li key={key} class="inbox-head">
              {drawHead(title, members.length)}
            </li>
          ),
          members.map(row => <li key={row.key}>{drawRow(row, title === undefined)}</li>),
        ])}
      </ul>
    );
  return (
    <div
      role="listbox"
      aria-label="Inbox"
      aria-multiselectable
      // Its options have the focus.
      tabIndex={-1}
      class="inbox-rows"
      onKeyDown={onKeyDown}
      onClick={onClick}
      {...holds}
    >
      {groups.map(({ key, title, rows: members }) =>
        title === undefined ? (
          members.map(row => drawRow(row, true))
        ) : (
          // biome-ignore lint/a11y/useSemanticElements: a listbox has groups, and no fieldsets.
          <div
            key={key}
            data-group={key}
            role="group"
            aria-label={`${formatLine(title, 120)}, ${members.length}`}
            class="inbox-group"
          >
            <p class="inbox-head" aria-hidden="true">
              {drawHead(title, members.length)}
            </p>
            {members.map(row => drawRow(row, false))}
          </div>
        ),
      )}
    </div>
  );
}

const keyOfRow = (target: EventTarget | null): string | undefined =>
  target instanceof Element ? target.closest<HTMLElement>('[data-key]')?.dataset.key : undefined;

type InboxRowProps = {
  row: InboxLine;
  /** Whether it shows the title of its run, or its group does. */
  hasTitle: boolean;
  words: string;
  href: string;
  isShown: boolean;
  isSelected: boolean | null;
  isFirst: boolean;
  onFocus(): void;
};

function InboxRow({ row, hasTitle, words, href, isShown, isSelected, isFirst, onFocus }: InboxRowProps) {
  const { kind, call, since, agent, title } = row.item;
  const facts = isOpenItem(call)
    ? joinFacts(
        !isMine(call) && 'for others',
        kind !== 'result' && hasDuties(call) && `needs ${describeDuties(call)}`,
        describeApprovals(call),
      )
    : '';
  const option = isSelected !== null && {
    role: 'option' as const,
    'aria-selected': isSelected,
    tabIndex: isFirst ? 0 : -1,
  };
  return (
    <a
      {...option}
      class={`inbox-row ${row.isGone ? 'is-gone' : ''}`}
      href={href}
      data-key={row.key}
      draggable={false}
      aria-current={isShown ? 'true' : undefined}
      onFocus={onFocus}
    >
      {isSelected !== null && <span class="pick" aria-hidden="true" />}
      <span class={`kind is-${kind}`}>{row.isGone ? 'resolved' : KINDS[kind]}</span>{' '}
      <Safe text={nameOf(call)} class="mono tool" />{' '}
      <time title={formatDay(since)}>{formatAgo(since, Date.now())}</time>{' '}
      <bdi dir="auto" class="differs">
        {formatLine(words, 200)}
      </bdi>{' '}
      {hasTitle ? (
        <Safe text={title || agent} class="title" />
      ) : (
        <span class="spoken">{showSafe(title || agent)}</span>
      )}
      {facts !== '' && <Safe text={facts} class="title who" />}
    </a>
  );
}
