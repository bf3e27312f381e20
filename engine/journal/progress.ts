import type { Call, Context } from '../../machines/context.ts';
import { OPEN_KINDS } from '../../machines/settled.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Progress } from '../../protocol/store.ts';

const LONGEST_WHY = 300;
const MOST_AWAITED = 20;

/** Returns what lists show of a run in this state. Computed with every append, so it does little. */
export function progressOf(state: ChartState): Progress {
  const { context } = state;
  const { next, usage, turns, cost, activeMs } = context;
  const tokens = usage === null ? 0 : usage.inputTokens + usage.outputTokens;
  const progress: Progress = { state: statePath(state), turns, tokens, cost, activeMs };
  if (next !== null) progress.why = next.why.slice(0, LONGEST_WHY);
  if (state.hasTag('rest') && context.open > 0) progress.waitsFor = listAwaited(context);
  if (state.status === 'active') return progress;
  progress.endedAt = context.now;
  if (next?.type === 'fail') progress.errorCode = next.code;
  if (next?.type === 'finish' && next.reason !== undefined) progress.incomplete = { reason: next.reason };
  return progress;
}

type Awaited = NonNullable<Progress['waitsFor']>[number];

function listAwaited({ calls }: Context): Awaited[] {
  return calls.flatMap(awaitedIn).slice(0, MOST_AWAITED);
}

function awaitedIn({ callId, name, childRunId, status }: Call): Awaited[] {
  const type = OPEN_KINDS[status];
  if (type === undefined) return [];
  return [{ type, callId, name, ...(type === 'result' && omitUndefined({ runId: childRunId })) }];
}
