import type { RunModel } from '../../../visualizer/page/run-model.ts';
import type { DemoState } from '../demo-state.ts';
import { countPayments, type Judgement } from './ledger-view.ts';
import type { SideLook } from './side-panel.ts';

const SHOWN_ENTRIES = 3;

/** Returns what the page shows of the run. */
export function lookAtRun(model: RunModel | null, { ledger }: DemoState['chart']): SideLook {
  const path = model?.path ?? '';
  return {
    at: path === '' ? 'not started' : path,
    said: lastSaid(model),
    record: (model?.entries ?? []).slice(-SHOWN_ENTRIES).map(({ event }) => event.type),
    judgement: judge(path, ledger.cents, ledger.lines.length),
  };
}

function lastSaid(model: RunModel | null): string {
  const replies = model?.conversation.filter(block => block.kind === 'reply') ?? [];
  return replies.at(-1)?.text ?? '';
}

function judge(path: string, cents: number, payments: number): Judgement {
  if (path === 'resting.inDoubt') return { is: 'asks', text: 'in doubt: it asks' };
  if (payments > 1)
    return {
      is: 'bad',
      text: `${countPayments(cents)}: a person said that the first payment did not happen`,
    };
  if (payments === 1) return { is: path === 'finished' ? 'good' : 'open', text: countPayments(cents) };
  return { is: 'open', text: '' };
}
