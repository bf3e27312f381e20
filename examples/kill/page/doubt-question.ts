import type { RunModel } from '../../../visualizer/page/model/run-model.ts';
import { type DemoState, ORDER } from '../demo-state.ts';
import { fill, h } from './element.ts';

type DoubtQuestion = {
  element: HTMLElement;
  update(model: RunModel | null, chart: DemoState['chart']): void;
};

/** Sends a command of the run. */
type TellRun = (command: string, body?: object) => void;

const QUARANTINED = 'Several processes in a row died while driving it, without progress';

/** What a run in doubt asks, and what a person can say; also the way on for a run that was quarantined. */
export function makeDoubtQuestion(tell: TellRun): DoubtQuestion {
  const element = h('div', { class: 'question', 'aria-live': 'polite' });
  let payments = 0;

  const happened = (callId: string): void =>
    tell('resolve', { callId, happened: true, output: { refundedCents: ORDER.cents } });
  const again = (callId: string): void => tell('resolve', { callId, retry: true });

  const ask = (callId: string): HTMLElement[] => [
    h('p', {}, 'Its process died during this call. Was the refund paid?'),
    h(
      'p',
      { class: 'answers' },
      h(
        'button',
        { type: 'button', class: 'primary', onclick: () => (payments > 0 ? happened : again)(callId) },
        'Ask the ledger',
      ),
      h('button', { type: 'button', onclick: () => happened(callId) }, 'It happened'),
      h('button', { type: 'button', onclick: () => again(callId) }, 'It did not'),
    ),
  ];
  const goOn = (reason: string): HTMLElement[] => [
    h('p', {}, `${reason}.`),
    h(
      'p',
      { class: 'answers' },
      h('button', { type: 'button', class: 'primary', onclick: () => tell('unpause') }, 'Continue'),
    ),
  ];

  return {
    element,
    update(model, { ledger }) {
      payments = ledger.lines.length;
      const path = model?.path.value;
      const callId = model?.fold.context?.calls.find(({ status }) => status === 'doubted')?.callId;
      const isQuarantined = path === 'resting.paused';
      const cause = model?.view.value?.open.find(({ kind }) => kind === 'pause')?.reason;
      const [reason = ''] = (cause ?? QUARANTINED).split(';');
      element.hidden = !isQuarantined && callId === undefined;
      fill(element, [callId, isQuarantined, reason], () => {
        if (isQuarantined) return goOn(reason);
        return callId === undefined ? null : ask(callId);
      });
    },
  };
}
