import { type RunModel, textOfLive } from '../../../visualizer/page/model/run-model.ts';
import type { DemoState } from '../demo-state.ts';
import { countPayments, type Judgement } from './ledger-view.ts';
import type { SideLook } from './side-panel.ts';

const SHOWN_ENTRIES = 3;

/** Returns what the page shows of the run. */
export function lookAtRun(model: RunModel | null, { ledger }: DemoState['chart']): SideLook {
  const path = model?.path.value ?? '';
  return {
    at: path === '' ? 'not started' : path,
    said: lastSaid(model),
    record: model === null ? [] : lastEntries(model),
    judgement: judge(path, ledger.cents, ledger.lines.length),
  };
}

function lastSaid(model: RunModel | null): string {
  if (model === null) return '';
  const live = textOfLive(model.live.value);
  if (live !== '') return live;
  const reply = model.story.blocks.findLast(block => block.kind === 'reply');
  return reply === undefined ? '' : model.readReply(reply).text;
}

function lastEntries(model: RunModel): string[] {
  const last = model.last.value;
  const seqs = Array.from({ length: SHOWN_ENTRIES }, (_, place) => last - SHOWN_ENTRIES + 1 + place);
  return seqs.flatMap(seq => model.entry(seq)?.type ?? []);
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
