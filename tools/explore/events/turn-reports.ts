import { digestCall } from '../../../engine/journal/digest.ts';
import type { Context } from '../../../machines/context.ts';
import type { QualifiedCall } from '../../../protocol/event.ts';
import type { Environment, Round } from '../environment/environment.ts';
import { answering, failing, makeTurn, type Told } from './make-events.ts';

/** The round's calls as the turn under way would make them. */
export function makeRound(round: Round, context: Context): QualifiedCall[] {
  return round.map((call, index) => {
    const suffix = round.length === 1 ? '' : index < 26 ? String.fromCharCode(97 + index) : `_${index}`;
    return nameCall(call, `${call.name}_${context.turn.number}${suffix}`, context);
  });
}

/** A call as it gets its id, its digest and the time it expires. */
export function nameCall(
  { expiresInMs, ...call }: Round[number],
  callId: string,
  { now }: Context,
): QualifiedCall {
  return {
    callId,
    ...call,
    digest: digestCall(call.name, call.input),
    ...(expiresInMs === undefined ? {} : { expiresAt: now + 1 + expiresInMs }),
  };
}

/** A turn's calls and what it spends, as `turn.completed`. */
export function makeCallingTurn(round: Round, context: Context, environment: Environment): Told {
  return { ...makeTurn({ calls: makeRound(round, context) }), ...spendTurn(context, environment) };
}

function spendTurn(context: Context, { usage, turnMs }: Environment) {
  const { provider = 'test', model = 'first' } = context.config.models[context.turn.model] ?? {};
  const startedAt = context.now + 1 - turnMs;
  const token = `after turn ${context.turn.number}`;
  return { provider, model, usage, startedAt, continuation: { provider, model, instructions: '', token } };
}

/** All that a model call may come to. */
export function listTurnReports(context: Context, environment: Environment): Told[] {
  const { now, turns } = context;
  const rounds = turns === 0 ? environment.firstRounds : environment.rounds;
  const startedAt = now + 1 - environment.turnMs;
  const cutOff = turns === 0 && !environment.mayAnswerAtOnce ? [] : environment.endings;
  const ways: Told[] = [
    { type: 'text.started' },
    { type: 'calls.started' },
    ...(turns === 0 && !environment.mayAnswerAtOnce ? [] : [answering('done')]),
    ...rounds.map(round => makeTurn({ calls: makeRound(round, context) })),
    ...cutOff.map(finishReason => makeTurn({ finishReason })),
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
  return ways.map(told => (told.type === 'turn.completed' ? { ...told, ...spent } : told));
}
