import { finishReasonSchema } from '../../../protocol/turn.ts';
import type { CallTemplate, Environment, Round } from '../../../tools/explore/environment/environment.ts';

/** A call that an ungated `none` tool of the engine would get. */
export const call = (change: Partial<CallTemplate> = {}): CallTemplate => ({
  name: 'look',
  input: {},
  sideEffect: 'none',
  reconcilable: false,
  executedBy: 'engine',
  gate: false,
  ...change,
});

export const gatedCall = (change: Partial<CallTemplate> = {}) =>
  call({ name: 'pay', sideEffect: 'once', gate: true, ...change });

export const clientCall = (change: Partial<CallTemplate> = {}) =>
  call({ name: 'ask', executedBy: 'client', ...change });

export type WorldChange = { rounds?: readonly Round[]; sticky?: boolean; edits?: boolean };

/**
 * A environment with everything in it, whatever the tools: the first turn makes one of `rounds`, later ones a
 * safe call or a gated one.
 */
export function makeEnvironment({
  rounds = [],
  sticky = false,
  edits = false,
}: WorldChange = {}): Environment {
  const later = [[gatedCall()]];
  return {
    firstRounds: [...rounds, ...later],
    rounds: later,
    probes: [],
    cutOff: [call()],
    endings: finishReasonSchema.options,
    mayAnswerAtOnce: true,
    usage: null,
    turnMs: 1,
    outputs: name => [`output of ${name}`],
    editedInput: () => ({ edited: true }),
    attempts: () => Number.POSITIVE_INFINITY,
    doubts: () => true,
    suspends: () => true,
    sticky,
    edits,
    clientEvents: true,
    invalidEvents: true,
  };
}

/** One round for each kind of call there is: 48 kinds, those that cannot run included. */
export function everyCall(): Round[] {
  const flags = [false, true];
  return (['none', 'idempotent', 'once'] as const).flatMap(sideEffect =>
    flags.flatMap(reconcilable =>
      flags.flatMap(gate =>
        (['engine', 'client'] as const).flatMap(executedBy =>
          flags.map(broken => [
            call({
              name: gate ? 'pay' : 'look',
              sideEffect,
              reconcilable,
              gate,
              executedBy,
              ...(broken ? { error: 'unknown tool' } : {}),
            }),
          ]),
        ),
      ),
    ),
  );
}

const expiring = gatedCall({ expiresInMs: 500 });

/** Rounds of two and three calls in which each kind meets each other kind that matters. */
export const MIXED_ROUNDS: readonly Round[] = [
  [call(), call()],
  [call(), gatedCall()],
  [gatedCall(), expiring],
  [clientCall(), call({ sideEffect: 'once' })],
  [call({ sideEffect: 'once' }), call({ sideEffect: 'once', reconcilable: true })],
  [call({ error: 'bad arguments' }), expiring, clientCall({ gate: true })],
  [call(), expiring, clientCall()],
];
