import type { ChartState } from '../../machines/step.ts';
import type { Effect } from '../../protocol/effect.ts';
import type { Moment } from '../invariants/invariant.ts';

type MomentParts = {
  before: ChartState | null;
  event: Moment['event'];
  after: ChartState;
  effects: readonly Effect[];
  listEvents(): Moment['events'];
  /** Called when an invariant reads the transcript or the events: its answer may then depend on earlier rounds. */
  onLookBack?(): unknown;
};

/** Returns a step as the argument of the user's invariants. */
export function makeMoment({ before, event, after, effects, listEvents, onLookBack }: MomentParts): Moment {
  return {
    context: watchReads(after.context, onLookBack),
    value: after.value,
    event,
    before: before === null ? null : { context: watchReads(before.context, onLookBack), value: before.value },
    effects,
    get events() {
      onLookBack?.();
      return listEvents();
    },
  };
}

function watchReads(
  context: ChartState['context'],
  onRead: (() => unknown) | undefined,
): ChartState['context'] {
  if (onRead === undefined) return context;
  const read = () => {
    onRead();
    return context.transcript;
  };
  return Object.defineProperty({ ...context }, 'transcript', { enumerable: true, get: read });
}
