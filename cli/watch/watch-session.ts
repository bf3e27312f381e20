import { messageOf } from '../../protocol/error.ts';
import type { Answer } from '../../protocol/open/answer.ts';
import type { Person } from '../../protocol/run-command.ts';
import { callIdOf, type InboxItem, isOpenItem } from '../../protocol/run-view.ts';
import type { RunRecord } from '../../protocol/store.ts';
import { type Board, EMPTY_BOARD } from './board.ts';
import { describeDone, describeQuestion, findHurdle, nameSubject } from './describe-decision.ts';
import { KeyPresses } from './key-presses.ts';
import type { Key } from './keys.ts';

export type Pane = 'inbox' | 'runs';
export type OpenedRow = { item: InboxItem } | { record: RunRecord };

/** What the terminal shows. */
export type WatchView = {
  board: Board;
  pane: Pane;
  /** The place of the chosen row of each pane. */
  chosen: Readonly<Record<Pane, number>>;
  opened: OpenedRow | null;
  /** The first line of what is opened that is shown. */
  scroll: number;
  filter: string;
  /** A line that is being typed. */
  field: { label: string; text: string } | null;
  /** What the next press decides; empty if nothing is asked. */
  asked: string;
  notice: string;
  /** Why the board may be out of date; empty if it is not. */
  problem: string;
};

type Field = { purpose: 'filter' | 'reason'; label: string; text: string; item?: InboxItem };

/** `decide` and `ask` resolve to what to tell; `ask` asks on the terminal itself. */
export type WatchActions = {
  decide(item: InboxItem, answer: Answer): Promise<{ isTaken: boolean; message?: string }>;
  ask(opened: OpenedRow): Promise<string>;
  suspend(): void;
  quit(): void;
};

type SessionOptions = {
  person: Person;
  actions: WatchActions;
  later(ms: number, run: () => void): () => void;
  /** Called after each change of `view`. */
  onChange(): void;
};

const LONGEST_FIELD = 500;
const PAGE = 10;

const REASON: Readonly<Partial<Record<InboxItem['kind'], string>>> = {
  review: 'Remark for the model (may be empty)',
};

/**
 * What a person does in `watch`: its keys, by the time at which they came.
 *
 * V1 A row stays chosen while others come and go; when it goes, the one in its place is chosen.
 * V2 A question is about one open thing: it ends when that is no longer open, and with every other key.
 */
export class WatchSession {
  readonly #options: SessionOptions;
  readonly #presses: KeyPresses;
  #board: Board = EMPTY_BOARD;
  #pane: Pane = 'inbox';
  #keys: Record<Pane, string | null> = { inbox: null, runs: null };
  #places: Record<Pane, number> = { inbox: 0, runs: 0 };
  #openedKey: string | null = null;
  #scroll = 0;
  #filter = '';
  #field: Field | null = null;
  #notice = '';
  #problem = '';
  #isBusy = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#presses = new KeyPresses(options.later);
  }

  get filter(): string {
    return this.#field?.purpose === 'filter' ? this.#field.text : this.#filter;
  }

  get view(): WatchView {
    const field = this.#field;
    return {
      board: this.#board,
      pane: this.#pane,
      chosen: this.#places,
      opened: this.#opened(),
      scroll: this.#scroll,
      filter: this.filter,
      field: field === null ? null : { label: field.label, text: field.text },
      asked: this.#presses.asked?.words ?? '',
      notice: this.#notice,
      problem: this.#problem,
    };
  }

  show(board: Board): void {
    const before = this.#opened();
    this.#problem = '';
    this.#board = board;
    for (const pane of ['inbox', 'runs'] as const) this.#keep(pane);
    if (before !== null && this.#opened() === null) this.#openedKey = null;
    const gone = before !== null && 'item' in before ? before.item : undefined;
    if (gone !== undefined && this.#openedKey === null && !this.#isBusy)
      this.#notice = `Resolved elsewhere: ${nameSubject(gone)}.`;
    const asked = this.#presses.asked;
    if (asked !== null && !board.items.some(item => asked.id.startsWith(markOf(item)))) this.#presses.end();
    if (this.#field?.item !== undefined && !this.#isOpen(this.#field.item)) this.#field = null;
    this.#options.onChange();
  }

  fail(message: string): void {
    this.#problem = message;
    this.#options.onChange();
  }

  tell(message: string): void {
    this.#notice = message;
    this.#options.onChange();
  }

  /** Takes a key that came at `at`, in ms of a clock that only goes forward. */
  press(key: Key, at: number): void {
    if (key.name === 'Ctrl+C' || (key.name === 'Ctrl+D' && this.#field === null))
      return this.#options.actions.quit();
    if (this.#field !== null) this.#type(this.#field, key, at);
    else this.#command(key.name, at);
    this.#options.onChange();
  }

  #command(name: string, at: number): void {
    if (name === 'a') return this.#approve(at);
    if (name === 'Enter' && this.#presses.asked !== null) return this.#presses.confirm(at);
    const wasAsked = this.#presses.asked !== null;
    this.#presses.end();
    this.#notice = '';
    switch (name) {
      case 'q':
        return this.#options.actions.quit();
      case 'Ctrl+Z':
        return this.#options.actions.suspend();
      case 'Escape':
        if (wasAsked) return;
        if (this.#openedKey !== null) this.#openedKey = null;
        else this.#filter = '';
        return;
      case 'Enter':
        return this.#open();
      case 'Tab':
      case 'Shift+Tab':
        this.#pane = this.#pane === 'inbox' ? 'runs' : 'inbox';
        this.#openedKey = null;
        return;
      case 'r':
        return this.#beginReason();
      case 'e':
        return this.#ask();
      case '/':
        this.#field = { purpose: 'filter', label: 'Filter', text: this.#filter };
        return;
      case 'n':
      case 'p':
        if (this.#openedKey !== null) this.#step(name === 'n' ? 1 : -1);
        return;
      default: {
        const move = MOVES[name];
        if (move === undefined) return;
        if (this.#openedKey === null) this.#move(move);
        else this.#scroll = Math.max(0, this.#scroll + move);
      }
    }
  }

  /** How far the view could scroll what is opened: the last line that may be the first. */
  limitScroll(most: number): void {
    this.#scroll = Math.min(this.#scroll, Math.max(0, most));
  }

  #approve(at: number): void {
    const item = this.#subject();
    if (item === undefined) return;
    const obstacle = findHurdle(item, 'approve', this.#options.person);
    if (obstacle === null) return this.#askFirst('a', item, { type: 'approve' }, at);
    this.#presses.end();
    this.#notice = obstacle;
  }

  #beginReason(): void {
    const item = this.#subject();
    if (item === undefined) return;
    const obstacle = findHurdle(item, 'reject', this.#options.person);
    if (obstacle !== null) this.#notice = obstacle;
    else {
      const label = REASON[item.kind] ?? 'Reason for the model (may be empty)';
      this.#field = { purpose: 'reason', label, text: '', item };
    }
  }

  #askFirst(key: string, item: InboxItem, answer: Answer, at: number): void {
    this.#notice = '';
    const id = `${markOf(item)} ${JSON.stringify(answer)}`;
    const again = key === 'Enter' ? 'Press Enter again.' : `Press ${key} again, or Enter.`;
    const words = `${describeQuestion(item, answer)} ${again} Esc leaves it open.`;
    this.#presses.press(key, { id, words, act: () => void this.#decide(item, answer) }, at);
  }

  async #decide(item: InboxItem, answer: Answer): Promise<void> {
    this.#isBusy = true;
    this.tell('Deciding…');
    try {
      const { isTaken, message } = await this.#options.actions.decide(item, answer);
      if (isTaken) this.#leave(item);
      this.#notice = message ?? describeDone(item, answer);
    } catch (error) {
      this.#notice = messageOf(error);
    }
    this.#isBusy = false;
    this.#options.onChange();
  }

  /** Shows the next open thing in the place of one that was decided. */
  #leave(item: InboxItem): void {
    const items = this.#board.items.filter(one => itemKey(one) !== itemKey(item));
    const wasOpened = this.#openedKey === itemKey(item);
    this.#board = { ...this.#board, items };
    this.#keep('inbox');
    const next = items[this.#places.inbox];
    if (wasOpened) this.#openOnly(next === undefined ? null : itemKey(next));
  }

  #ask(): void {
    const opened = this.#opened() ?? this.#chosen();
    if (opened === null || this.#isBusy) return;
    this.#isBusy = true;
    void this.#options.actions
      .ask(opened)
      .catch(messageOf)
      .then(message => {
        this.#isBusy = false;
        this.tell(message);
      });
  }

  #type(field: Field, { name, text = name }: Key, at: number): void {
    if (name === 'Enter') return this.#submit(field, at);
    if (name === 'Escape') this.#field = null;
    else if (name === 'Backspace') field.text = [...field.text].slice(0, -1).join('');
    else if (name === 'Ctrl+U') field.text = '';
    else if (name === 'paste' || [...name].length === 1)
      field.text = (field.text + text.replace(/\s+/gu, ' ')).slice(0, LONGEST_FIELD);
  }

  #submit({ purpose, text, item }: Field, at: number): void {
    this.#field = null;
    if (purpose === 'filter') this.#filter = text;
    else if (item !== undefined && this.#isOpen(item)) {
      const reason = text.trim();
      this.#askFirst('Enter', item, { type: 'reject', ...(reason !== '' && { reason }) }, at);
    }
  }

  /** The open thing that `a`, `r` and `e` are about. */
  #subject(): InboxItem | undefined {
    const about = this.#opened() ?? this.#chosen();
    return about !== null && 'item' in about ? about.item : undefined;
  }

  #chosen(): OpenedRow | null {
    const item = this.#board.items[this.#places.inbox];
    const record = this.#board.runs[this.#places.runs];
    if (this.#pane === 'inbox') return item === undefined ? null : { item };
    return record === undefined ? null : { record };
  }

  #open(): void {
    const chosen = this.#chosen();
    if (chosen === null) return;
    if ('item' in chosen) return this.#openOnly(itemKey(chosen.item));
    const { record } = chosen;
    const own = this.#board.items.find(
      ({ runId, rootId }) => runId === record.runId || rootId === record.runId,
    );
    this.#openOnly(own === undefined ? record.runId : itemKey(own));
  }

  #openOnly(key: string | null): void {
    this.#openedKey = key;
    this.#scroll = 0;
  }

  #opened(): OpenedRow | null {
    const key = this.#openedKey;
    if (key === null) return null;
    const item = this.#board.items.find(one => itemKey(one) === key);
    if (item !== undefined) return { item };
    const record = this.#board.runs.find(({ runId }) => runId === key);
    return record === undefined ? null : { record };
  }

  #isOpen(item: InboxItem): boolean {
    return this.#board.items.some(one => itemKey(one) === itemKey(item));
  }

  #move(by: number): void {
    const last = this.#rows(this.#pane).length - 1;
    const place = Math.max(0, Math.min(last, this.#places[this.#pane] + by));
    this.#places[this.#pane] = place;
    this.#keys[this.#pane] = this.#rows(this.#pane)[place] ?? null;
  }

  #step(by: number): void {
    this.#move(by);
    this.#open();
  }

  #keep(pane: Pane): void {
    const rows = this.#rows(pane);
    const found = rows.indexOf(this.#keys[pane] ?? '');
    const place = found >= 0 ? found : Math.max(0, Math.min(this.#places[pane], rows.length - 1));
    this.#places[pane] = place;
    this.#keys[pane] = rows[place] ?? null;
  }

  #rows(pane: Pane): string[] {
    return pane === 'inbox' ? this.#board.items.map(itemKey) : this.#board.runs.map(({ runId }) => runId);
  }
}

const MOVES: Readonly<Record<string, number>> = {
  j: 1,
  Down: 1,
  k: -1,
  Up: -1,
  PageDown: PAGE,
  ' ': PAGE,
  PageUp: -PAGE,
  Home: -1_000_000,
  End: 1_000_000,
};

export function itemKey({ runId, call }: InboxItem): string {
  return `${runId}/${callIdOf(call)}`;
}

/** Names what is open as it is now: an edit changes it. */
export function markOf(item: InboxItem): string {
  return `${itemKey(item)} ${isOpenItem(item.call) ? item.call.digest : ''}`;
}
