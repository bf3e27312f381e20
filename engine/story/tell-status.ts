import { describeIncomplete, listOpen } from '../../machines/settled.ts';
import { statePath, statusOf } from '../../machines/status.ts';
import type { ChartState } from '../../machines/step.ts';
import type { RunEvent } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { isOpenItem, type RunView } from '../../protocol/run-view.ts';
import { filterText, type TextFilter } from '../../text/text-filter.ts';
import type { StorySettled, StoryState } from './story-event.ts';
import type { Around } from './tell-story.ts';

export type StatusTeller = typeof tellStatus;

/** What an entry changes in where the run is: its state, and what it rests with or ended in; else `null`. */
export const tellStatus = {
  /** Told after each message too. */
  stateOf(event: RunEvent, { before, after }: Around): StoryState | null {
    const state = describeState(after);
    if (event.type === 'run.started') return state;
    if (event.type === 'message.received' && event.from === undefined) return state;
    return before === after || (before !== null && isSameState(describeState(before), state)) ? null : state;
  },

  settledBy({ before, after }: Around, filters: readonly (() => TextFilter)[]): StorySettled | null {
    if (before === after || statusOf(after) === 'running') return null;
    const settled = describeEnd(after, filters);
    if (before === null || settled.status !== 'waiting' || statusOf(before) !== 'waiting') return settled;
    return isSameList(listOpen(before.context), settled.open) ? null : settled;
  },
};

function describeState(state: ChartState): StoryState {
  const { next } = state.context;
  const status = statusOf(state);
  const why = status === 'waiting' ? next?.why : undefined;
  const error = status === 'failed' && next?.type === 'fail' ? next.code : undefined;
  return { path: statePath(state), status, ...omitUndefined({ why, error }) };
}

function isSameState(before: StoryState, after: StoryState): boolean {
  return before.path === after.path && before.status === after.status && before.why === after.why;
}

function describeEnd(
  { context, ...state }: ChartState,
  filters: readonly (() => TextFilter)[],
): StorySettled {
  const { next, answer } = context;
  if (state.status === 'active') return { status: 'waiting', open: listOpen(context) };
  if (state.value === 'failed' && next?.type === 'fail')
    return { status: 'failed', error: { code: next.code, message: next.message } };
  if (state.value === 'cancelled') return { status: 'cancelled' };
  return {
    status: 'finished',
    text: filterText(answer?.text ?? '', filters),
    ...omitUndefined({ output: answer?.output, incomplete: describeIncomplete(context) }),
  };
}

function isSameList(one: RunView['open'], other: RunView['open']): boolean {
  const name = (open: RunView['open'][number]) =>
    isOpenItem(open) ? `${open.id} ${open.digest} ${open.reason}` : `${open.id} ${open.reason}`;
  return one.length === other.length && one.every((open, at) => name(open) === name(other[at] ?? open));
}
