import type { DemoState } from '../demo-state.ts';
import { countPayments, type Judgement } from './ledger-view.ts';
import type { SideLook } from './side-panel.ts';

const STEPS = ['model', 'askPerson', 'refund', 'model'];

const AT = {
  model: 'model(transcript)',
  askPerson: 'askPerson(call)',
  refund: 'refund(call)',
  finished: 'finished',
} as const;

/** Returns what the page shows of the plain loop. */
export function lookAtLoop({ loop, ledger }: DemoState['plain']): SideLook {
  const hasEnded = loop?.at === 'finished';
  return {
    at: loop === null ? 'not started' : AT[loop.at],
    said: loop?.said ?? '',
    record: STEPS.slice(0, loop?.recorded ?? 0).map(step => `${step} ✓`),
    judgement: judge(ledger.cents, ledger.lines.length, hasEnded),
  };
}

function judge(cents: number, payments: number, hasEnded: boolean): Judgement {
  if (payments > 1) return { is: 'bad', text: countPayments(cents) };
  if (payments === 1) return { is: hasEnded ? 'good' : 'open', text: countPayments(cents) };
  return { is: 'open', text: '' };
}
