import type { Call, Context } from '../../../machines/context.ts';
import { type ChartState, statePath } from '../../../machines/step.ts';
import type { ChartEvent } from '../../../protocol/event.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import type { Environment } from '../environment/environment.ts';
import { listClientEvents, listDecisions, listEdits, QUARANTINED } from './client-events.ts';
import { listInvalidEvents } from './invalid-events.ts';
import { answering, failing, settling, stamp, starting, type Told, type ToldOf } from './make-events.ts';
import { listTurnReports } from './turn-reports.ts';

/**
 * Every event worth offering in a state; which of them the chart has to take is `isEnabled`'s to say. What people
 * decide makes no difference any more to a run that is being cancelled.
 */
export function generateEvents(state: ChartState, environment: Environment): ChartEvent[] {
  const { context } = state;
  const place = statePath(state);
  const isOpen = context.cancelling === null;
  const told = [
    ...(isOpen ? listReports(place, context, environment) : listLastReports(place, context)),
    ...(isOpen ? context.calls.flatMap(call => listDecisions(context, call, environment)) : []),
    ...(environment.people ? listClientEvents(context, environment) : []),
    ...(environment.edits && isOpen ? listEdits(place, context) : []),
    ...(environment.unfit ? listInvalidEvents(context, place) : []),
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

const quarantined = ({ people }: Environment): Told[] => (people ? [QUARANTINED] : []);

function listReports(place: string, context: Context, environment: Environment): Told[] {
  switch (place) {
    case 'turn.planning':
    case 'turn.finalStreaming':
      return [...listTurnReports(context, environment), ...quarantined(environment)];
    case 'executingTools':
      return [
        ...context.calls.flatMap(call => listToolReports(context, call, environment)),
        ...quarantined(environment),
      ];
    case 'finishing':
      return [
        { type: 'finishers.completed' },
        { type: 'finishers.completed', text: 'checked', output: { checked: true } },
        { type: 'finishers.rejected', feedback: `again, after ${context.turns}` },
        ...quarantined(environment),
      ];
    default:
      if (context.timer === null) return [];
      return [
        { type: 'timer.fired', at: Math.max(context.timer, context.now + 1) },
        ...(context.timer > context.now + 1 ? [{ type: 'timer.fired' } as const] : []),
      ];
  }
}

function listToolReports({ calls, now }: Context, call: Call, environment: Environment): Told[] {
  const { callId, status, attempt, name } = call;
  const isRunning = status === 'running';
  const isActing = isRunning || status === 'reconciling';
  const mayRetry = isRunning && call.sideEffect !== 'once' && attempt < environment.attempts(name);
  const expiries = calls.flatMap(other => (other.status === 'gated' ? [other.expiresAt ?? 0] : []));
  const late = Math.max(0, ...expiries);
  const [output = null] = environment.outputs(name);
  return [
    ...(status === 'queued' || status === 'reconciling' || mayRetry || (environment.unfit && !isRunning)
      ? [starting(callId, attempt + 1)]
      : []),
    ...(isActing ? environment.outputs(name).map(value => settlingWith(callId, value)) : []),
    ...(isActing
      ? [settling(callId, 'it broke', true)]
      : environment.unfit
        ? [settlingWith(callId, output)]
        : []),
    ...(isActing && environment.doubts(call)
      ? [{ type: 'tool.doubted', callId, reason: 'who knows' } as const]
      : []),
    ...(isRunning || environment.unfit ? [{ type: 'tool.interrupted', callId } as const] : []),
    ...(isRunning && environment.suspends(call)
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
