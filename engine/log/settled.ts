import {
  describeCancelled,
  describeFailed,
  describeFinished,
  describeWaiting,
} from '../../machines/settled.ts';
import { isAtRest, statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { Settled } from '../../protocol/run-view.ts';
import type { Host } from '../host/host.ts';

export { describeUnsettled, listOpen, listUnsettled } from '../../machines/settled.ts';
export type { Open, OpenCall, Settled } from '../../protocol/run-view.ts';

/** What `settled()` returns in this state; `null` while the run is running. `showText` filters the answer's text. */
export function describeSettled(state: ChartState, showText: (text: string) => string): Settled | null {
  const { context } = state;
  switch (statusOf(state)) {
    case 'running':
      return null;
    case 'finished': {
      const { output } = state;
      const finished = output?.status === 'finished' ? output : describeFinished(context);
      return { ...finished, text: showText(finished.text) };
    }
    case 'failed':
      return describeFailed(context);
    case 'cancelled':
      return describeCancelled(context);
    case 'waiting':
      return describeWaiting(context);
  }
}

/** Like `describeSettled`, but also `null` if the timer of a resting run is due. */
export function describeNow(
  state: ChartState,
  { host, showText }: { host: Pick<Host, 'now'>; showText(text: string): string },
): Settled | null {
  const { timer } = state.context;
  if (isAtRest(state) && timer !== null && timer <= host.now()) return null;
  return describeSettled(state, showText);
}
