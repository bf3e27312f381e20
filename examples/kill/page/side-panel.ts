import type { ProcessState, Side, SideState } from '../demo-state.ts';
import { fill, h } from './element.ts';
import { type Judgement, type LedgerView, makeLedgerView } from './ledger-view.ts';

export type SideLook = {
  /** The current line of the loop, or the current state of the chart. */
  at: string;
  said: string;
  /** What it has recorded, oldest first. */
  record: readonly string[];
  judgement: Judgement;
};

type SidePanel = { element: HTMLElement; update(side: SideState, look: SideLook): void };

type SidePanelOptions = {
  side: Side;
  title: string;
  claim: string;
  recordName: string;
  picture: Element;
  /** Shown below the model's text: a question for the person. */
  question: HTMLElement;
  kill(): void;
};

/** Creates the panel of one side: its picture, current step, text, record and ledger. */
export function makeSidePanel(options: SidePanelOptions): SidePanel {
  const { side, title, claim, recordName, picture, question, kill } = options;
  const process = h('span', { class: 'process' });
  const only = h('button', { type: 'button', class: 'kill-one', onclick: kill }, 'kill -9');
  only.setAttribute('aria-label', `kill -9: ${title} only`);
  const at = h('strong', { class: 'at' });
  const text = h('p', { class: 'said' });
  const record = h('ol', { class: 'record', 'aria-label': recordName });
  const ledger: LedgerView = makeLedgerView();
  const element = h(
    'section',
    { class: 'side', 'data-side': side, 'aria-label': title },
    h(
      'header',
      {},
      h('h2', {}, title),
      h('p', { class: 'claim' }, claim),
      h('p', { class: 'right' }, process, only),
    ),
    h('p', { class: 'now' }, at),
    h('div', { class: 'picture' }, picture),
    h('div', { class: 'known' }, h('h3', {}, recordName), record),
    h('div', { class: 'talk' }, text, question),
    ledger.element,
  );
  return {
    element,
    update(state, look) {
      element.dataset.process = state.process.is;
      process.textContent = describeProcess(state.process);
      at.textContent = look.at;
      text.textContent = look.said;
      fill(record, look.record, () => look.record.map(entry => h('li', {}, entry)));
      ledger.update(state, look.judgement);
    },
  };
}

function describeProcess(state: ProcessState): string {
  switch (state.is) {
    case 'starting':
      return `pid ${state.pid} starting`;
    case 'running':
      return `pid ${state.pid}`;
    case 'killed':
      return `pid ${state.pid} killed`;
    case 'broken':
      return state.message;
    case 'off':
      return '';
  }
}
