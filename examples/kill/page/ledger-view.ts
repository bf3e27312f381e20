import { fill, h } from '../../../visualizer/page/render/element.ts';
import type { SideState } from '../demo-state.ts';
import { formatDollars } from '../format-dollars.ts';
import { ORDER } from '../order.ts';

export type Verdict = { is: 'good' | 'bad' | 'asks' | 'open'; text: string };

export type LedgerView = { element: HTMLElement; update(side: SideState, verdict: Verdict): void };

/** A side's ledger as its file has it. */
export function makeLedgerView(): LedgerView {
  const file = h('h3', {});
  const lines = h('ol', { class: 'lines' });
  const total = h('strong', { class: 'total' });
  const said = h('span', { class: 'verdict' });
  const element = h(
    'section',
    { class: 'ledger' },
    file,
    lines,
    h('p', { class: 'sum', role: 'status' }, total, ' ', said),
  );
  return {
    element,
    update({ file: path, ledger }, verdict) {
      file.textContent = path.split(/[\\/]/).at(-1) ?? '';
      file.title = path;
      fill(lines, ledger.lines, () =>
        ledger.lines.length === 0
          ? h('li', { class: 'none' }, 'nothing paid yet')
          : ledger.lines.map(line => h('li', {}, line)),
      );
      total.textContent = formatDollars(ledger.cents);
      said.textContent = verdict.text;
      element.dataset.is = verdict.is;
    },
  };
}

/** What a number of payments is called, where one was due. */
export function countPayments(cents: number): string {
  const times = Math.round(cents / ORDER.cents);
  return times === 1 ? 'paid once' : times === 2 ? 'paid twice' : `paid ${times} times`;
}
