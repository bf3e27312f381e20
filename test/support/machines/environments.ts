import type { CallTemplate, Environment, ReviewTemplate, Round } from '../../../explore/environment.ts';
import { finishReasonSchema } from '../../../protocol/turn.ts';

/** A call of an ungated `none` tool that the engine runs. */
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

export type WorldChange = {
  rounds?: readonly Round[];
  sticky?: boolean;
  edits?: boolean;
  breakpoints?: boolean;
  judges?: boolean;
  reviews?: readonly ReviewTemplate[];
  people?: boolean;
  excludesSenders?: boolean;
  rules?: boolean;
  asks?: NonNullable<Environment['asks']>;
  signIns?: boolean;
};

/**
 * An environment with every event, independent of the tools: the first turn makes one of `rounds` or a gated
 * call, later turns make a gated call.
 */
export function makeEnvironment({
  rounds = [],
  sticky = false,
  edits = false,
  breakpoints = false,
  judges = false,
  reviews = [],
  people = false,
  excludesSenders = false,
  rules = false,
  asks = () => null,
  signIns = false,
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
    breakpoints,
    judges,
    reviews,
    people,
    excludesSenders,
    rules,
    asks,
    signIns,
    clientEvents: true,
    invalidEvents: true,
  };
}

/** One round for each of the 48 kinds of calls, including calls that cannot run. */
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

/** Rounds of two and three calls that combine the kinds that interact. */
export const MIXED_ROUNDS: readonly Round[] = [
  [call(), call()],
  [call(), gatedCall()],
  [gatedCall(), expiring],
  [clientCall(), call({ sideEffect: 'once' })],
  [call({ sideEffect: 'once' }), call({ sideEffect: 'once', reconcilable: true })],
  [call({ error: 'bad arguments' }), expiring, clientCall({ gate: true })],
  [call(), expiring, clientCall()],
];
