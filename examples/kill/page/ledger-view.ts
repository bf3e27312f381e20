import { ORDER, type SideState } from '../demo-state.ts';
import { formatDollars } from '../format-dollars.ts';
import { fill, h } from './element.ts';

export type Judgement = { is: 'good' | 'bad' | 'asks' | 'open'; text: string };

export type LedgerView = { element: HTMLElement; update(side: SideState, judgement: Judgement): void };

/** Creates the view of a side's ledger file. */
export function makeLedgerView(): LedgerView {
  const file = h('h3', {});
  const lines = h('ol', { class: 'lines' });
  const total = h('strong', { class: 'total' });
  const verdict = h('span', { class: 'verdict' });
  const element = h(
    'section',
    { class: 'ledger' },
    file,
    lines,
    h('p', { class: 'sum', role: 'status' }, total, ' ', verdict),
  );
  return {
    element,
    update({ file: path, ledger }, judgement) {
      file.textContent = path.split(/[\\/]/).at(-1) ?? '';
      file.title = path;
      fill(lines, ledger.lines, () =>
        ledger.lines.length === 0
          ? h('li', { class: 'none' }, 'nothing paid yet')
          : ledger.lines.map(line => h('li', {}, line)),
      );
      total.textContent = formatDollars(ledger.cents);
      verdict.textContent = judgement.text;
      element.dataset.is = judgement.is;
    },
  };
}

const TIMES: Readonly<Record<number, string>> = { 1: 'paid once', 2: 'paid twice' };

/** Describes how often the order was paid. */
export function countPayments(cents: number): string {
  const times = Math.round(cents / ORDER.cents);
  return TIMES[times] ?? `paid ${times} times`;
}
