// explore/events: the events that can come next in an explored state, valid ones and invalid ones.

import type { Call, Context } from '../../machines/context.ts';
import { type ChartState, statePath } from '../../machines/step.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import type { JsonValue } from '../../protocol/json.ts';
import type { Environment } from '../environment/environment.ts';
import { listClientEvents, listDecisions, listEdits, QUARANTINED } from './client-events.ts';
import { listBreakpoints, listCallEdits, listTurnEdits } from './debugger-events.ts';
import { listInvalidEvents } from './invalid-events.ts';
import {
  answering,
  failing,
  settling,
  stamp,
  starting,
  type UntimedEvent,
  type UntimedOf,
} from './make-events.ts';
import { listTurnReports } from './turn-reports.ts';

/**
 * Returns the events to offer in a state; `isEnabled` decides which of them the chart must accept. Decisions are
 * left out while the run is being cancelled: they have no effect.
 */
export function generateEvents(state: ChartState, environment: Environment): ChartEvent[] {
  const { context } = state;
  const place = statePath(state);
  const isOpen = context.cancelling === null;
  const events = [
    ...(isOpen ? listReports(place, context, environment) : listFinalReports(place, context)),
    ...(isOpen ? context.calls.flatMap(call => listDecisions(context, call, environment)) : []),
    ...(environment.clientEvents ? listClientEvents(context, environment) : listContinuation(context)),
    ...(environment.edits && isOpen ? listEdits(place, context) : []),
    ...(environment.edits && isOpen ? listTurnEdits(place, context, environment) : []),
    ...(environment.edits && isOpen ? listCallEdits(context, environment) : []),
    ...(environment.breakpoints === true && isOpen ? listBreakpoints(context) : []),
    ...(environment.invalidEvents ? listInvalidEvents(context, place) : []),
  ];
  return events.map(event => stamp(context, event));
}

/** The event that continues a run which was paused before, in explorations in which no one pauses it. */
function listContinuation({ paused, cancelling }: Context): UntimedEvent[] {
  return paused && cancelling === null ? [{ type: 'run.unpaused' }] : [];
}

/** The outcomes of what was running when the run was cancelled. */
function listFinalReports(place: string, { calls, now }: Context): UntimedEvent[] {
  if (place.startsWith('turn'))
    return [answering('at last', { startedAt: now }), { ...failing(), startedAt: now }];
  if (place === 'finishing') return [{ type: 'finishers.completed' }];
  const running = calls.filter(({ status }) => status === 'running' || status === 'reconciling');
  return running.flatMap(({ callId }): UntimedEvent[] => [
    settling(callId),
    { type: 'tool.doubted', callId, reason: 'unknown outcome' },
  ]);
}

const quarantined = ({ clientEvents }: Environment): UntimedEvent[] => (clientEvents ? [QUARANTINED] : []);

function listReports(place: string, context: Context, environment: Environment): UntimedEvent[] {
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

function listToolReports({ calls, now }: Context, call: Call, environment: Environment): UntimedEvent[] {
  const { callId, status, attempt, name } = call;
  const isRunning = status === 'running';
  const isActing = isRunning || status === 'reconciling';
  const mayRetry = isRunning && call.sideEffect !== 'once' && attempt < environment.attempts(name);
  const expiries = calls.flatMap(other => (other.status === 'gated' ? [other.expiresAt ?? 0] : []));
  const late = Math.max(0, ...expiries);
  const [output = null] = environment.outputs(name);
  return [
    ...(status === 'queued' ||
    status === 'reconciling' ||
    mayRetry ||
    (environment.invalidEvents && !isRunning)
      ? [starting(callId, attempt + 1)]
      : []),
    ...(isActing ? environment.outputs(name).map(value => settlingWith(callId, value)) : []),
    ...(isActing ? [settling(callId, { output: 'it broke', isError: true })] : []),
    ...(!isActing && environment.invalidEvents ? [settlingWith(callId, output)] : []),
    ...(isActing && environment.doubts(call)
      ? [{ type: 'tool.doubted', callId, reason: 'unknown outcome' } as const]
      : []),
    ...(isRunning || environment.invalidEvents ? [{ type: 'tool.interrupted', callId } as const] : []),
    ...(isRunning && environment.suspends(call)
      ? [{ type: 'tool.suspended', callId, childRunId: `child_${callId}` } as const]
      : []),
    ...(isActing && late > now ? [{ ...settlingWith(callId, output), at: late + 1 }] : []),
  ];
}

const settlingWith = (callId: string, output: JsonValue): UntimedOf<'tool.settled'> => ({
  type: 'tool.settled',
  callId,
  output,
  isError: false,
});
