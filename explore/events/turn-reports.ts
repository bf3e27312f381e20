import type { Context } from '../../machines/context.ts';
import { digestCall } from '../../protocol/content/digest.ts';
import type { QualifiedCall } from '../../protocol/event.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Environment, Round } from '../environment/environment.ts';
import { answering, failing, makeTurn, type UntimedEvent } from './make-events.ts';

/** Returns the calls of a round as the current turn makes them. */
function makeRound(round: Round, context: Context): QualifiedCall[] {
  return round.map((call, index) => {
    const suffix = round.length === 1 ? '' : suffixOf(index);
    return nameCall(call, `${call.name}_${context.turn.number}${suffix}`, context);
  });
}

function suffixOf(index: number): string {
  return index < 26 ? String.fromCharCode(97 + index) : `_${index}`;
}

/** Returns a call with its id, its digest and its expiry. */
export function nameCall(
  { expiresInMs, ...call }: Round[number],
  callId: string,
  { now }: Context,
): QualifiedCall {
  return {
    callId,
    ...call,
    digest: digestCall(call.name, call.input),
    ...omitUndefined({ expiresAt: expiresInMs === undefined ? undefined : now + 1 + expiresInMs }),
  };
}

/** Returns a `turn.completed` with the calls of a round and the environment's usage. */
export function makeCallingTurn(round: Round, context: Context, environment: Environment): UntimedEvent {
  return { ...makeTurn({ calls: makeRound(round, context) }), ...spendTurn(context, environment) };
}

function spendTurn(context: Context, { usage, turnMs }: Environment) {
  const { provider = 'test', model = 'first' } = context.config.models[context.turn.model] ?? {};
  const startedAt = context.now + 1 - turnMs;
  const token = `after turn ${context.turn.number}`;
  return { provider, model, usage, startedAt, continuation: { provider, model, instructions: '', token } };
}

/** Returns every outcome of a model call. */
export function listTurnReports(context: Context, environment: Environment): UntimedEvent[] {
  const { now, turns } = context;
  const rounds = turns === 0 ? environment.firstRounds : environment.rounds;
  const startedAt = now + 1 - environment.turnMs;
  const mayAnswer = turns > 0 || environment.mayAnswerAtOnce;
  const reports: UntimedEvent[] = [
    { type: 'text.started' },
    { type: 'calls.started' },
    ...(mayAnswer ? [answering('done')] : []),
    ...rounds.map(round => makeTurn({ calls: makeRound(round, context) })),
    ...(mayAnswer ? environment.endings.map(finishReason => makeTurn({ finishReason })) : []),
    ...(environment.cutOff.length === 0
      ? []
      : environment.endings.map(finishReason =>
          makeTurn({ finishReason, calls: makeRound(environment.cutOff, context), text: 'so far' }),
        )),
    { ...failing({ retryable: false }), startedAt },
    { ...failing(), startedAt },
    { ...failing({ retryAt: now + 10_000 }), startedAt },
  ];
  const spent = spendTurn(context, environment);
  return reports.map(event => (event.type === 'turn.completed' ? { ...event, ...spent } : event));
}
