import type { Call, Context } from '../../../machines/context.ts';
import { statePath } from '../../../machines/state-path.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { World } from '../environment/world.ts';
import { listStrangers } from './list-strangers.ts';
import { listTurnReports } from './list-turn-reports.ts';
import { listDecisions, listEdits, listWishes, PARKED } from './list-wishes.ts';
import { answering, failing, settling, stamp, starting, type Told, type ToldOf } from './make-events.ts';

/**
 * Every event worth offering in a state; which of them the chart has to take is `mustTake`'s to say. What people
 * decide makes no difference any more to a run that is being cancelled.
 */
export function generateEvents(state: ChartState, world: World): ChartEvent[] {
  const { context } = state;
  const place = statePath(state);
  const isOpen = context.cancelling === null;
  const told = [
    ...(isOpen ? listReports(place, context, world) : listLastReports(place, context)),
    ...(isOpen ? context.calls.flatMap(call => listDecisions(context, call, world)) : []),
    ...(world.people ? listWishes(context, world) : []),
    ...(world.edits && isOpen ? listEdits(place, context) : []),
    ...(world.unfit ? listStrangers(context, place) : []),
  ];
  return told.map(one => stamp(context, one));
}

/** What was under way when the run was to be cancelled comes to an end, one way or another. */
function listLastReports(place: string, { calls }: Context): Told[] {
  if (place.startsWith('turn')) return [answering('at last'), failing()];
  if (place === 'finishing') return [{ type: 'finishers.completed' }];
  const running = calls.filter(({ status }) => status === 'running' || status === 'reconciling');
  return running.flatMap(({ callId }): Told[] => [
    settling(callId),
    { type: 'tool.doubted', callId, reason: 'who knows' },
  ]);
}

const parked = ({ people }: World): Told[] => (people ? [PARKED] : []);

function listReports(place: string, context: Context, world: World): Told[] {
  switch (place) {
    case 'turn.planning':
    case 'turn.finalStreaming':
      return [...listTurnReports(context, world), ...parked(world)];
    case 'executingTools':
      return [...context.calls.flatMap(call => listToolReports(context, call, world)), ...parked(world)];
    case 'finishing':
      return [
        { type: 'finishers.completed' },
        { type: 'finishers.completed', text: 'checked', output: { checked: true } },
        { type: 'finishers.rejected', feedback: `again, after ${context.turns}` },
        ...parked(world),
      ];
    default:
      if (context.timer === null) return [];
      return [
        { type: 'timer.fired', at: Math.max(context.timer, context.now + 1) },
        ...(context.timer > context.now + 1 ? [{ type: 'timer.fired' } as const] : []),
      ];
  }
}

function listToolReports({ calls, now }: Context, call: Call, world: World): Told[] {
  const { callId, status, attempt, name } = call;
  const isRunning = status === 'running';
  const isActing = isRunning || status === 'reconciling';
  const mayRetry = isRunning && call.sideEffect !== 'once' && attempt < world.attempts(name);
  const expiries = calls.flatMap(other => (other.status === 'gated' ? [other.expiresAt ?? 0] : []));
  const late = Math.max(0, ...expiries);
  const [output = null] = world.outputs(name);
  return [
    ...(status === 'queued' || status === 'reconciling' || mayRetry || (world.unfit && !isRunning)
      ? [starting(callId, attempt + 1)]
      : []),
    ...(isActing ? world.outputs(name).map(value => settlingWith(callId, value)) : []),
    ...(isActing ? [settling(callId, 'it broke', true)] : world.unfit ? [settlingWith(callId, output)] : []),
    ...(isActing && world.doubts(call)
      ? [{ type: 'tool.doubted', callId, reason: 'who knows' } as const]
      : []),
    ...(isRunning || world.unfit ? [{ type: 'tool.interrupted', callId } as const] : []),
    ...(isRunning && world.suspends(call)
      ? [{ type: 'tool.suspended', callId, childRunId: `child_${callId}` } as const]
      : []),
    ...(isActing && late > now ? [{ ...settlingWith(callId, output), at: late + 1 }] : []),
  ];
}

const settlingWith = (callId: string, output: JsonValue): ToldOf<'tool.settled'> => ({
  type: 'tool.settled',
  callId,
  output,
  isError: false,
});
