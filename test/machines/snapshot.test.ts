import { describe, expect, it } from 'vitest';
import { agentMachine, CHART_VERSION } from '../../machines/agent.ts';
import { serviceNamed } from '../../machines/pending-service.ts';
import {
  chartIdentity,
  fromStored,
  pendingServices,
  type StoredState,
  toStored,
} from '../../machines/snapshot.ts';
import { next } from '../../machines/step.ts';
import { hashDefinition, structuralHash } from '../../machines/structural-hash.ts';
import { EngineError } from '../../protocol/error.ts';
import {
  answering,
  begin,
  type ChartRun,
  calling,
  failing,
  gated,
  makeCall,
  saying,
  stamp,
  starting,
  type UntimedEvent,
} from '../support/machines/builders.ts';

/** The chart definition as text, with functions as null. */
const DEFINITION = JSON.stringify(agentMachine.config, (_key, value) =>
  typeof value === 'function' ? null : value,
);

const hashWith = (from: string, to: string): string => {
  if (!DEFINITION.includes(from)) throw new Error(`the definition has no ${from}`);
  return hashDefinition(JSON.parse(DEFINITION.replaceAll(from, to)));
};

function refusalOf(stored: StoredState): EngineError {
  try {
    fromStored(stored);
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error('the state was not refused');
}

const throughJson = (stored: StoredState): StoredState => JSON.parse(JSON.stringify(stored));

describe('the structural hash', () => {
  it('has 16 hex digits, and ignores the source of functions', () => {
    expect(structuralHash()).toMatch(/^[0-9a-f]{16}$/);
    expect(hashDefinition(JSON.parse(DEFINITION))).toBe(structuralHash());
  });

  it.each([
    ['a description', '"description":"One model call."', '"description":"Something else."'],
    ['a removed description', '"description":"One model call.",', ''],
    ['a tag', '"tags":"rest"', '"tags":"idle"'],
    ['an output', '"output":null', '"output":{"status":"over"}'],
    ['meta', '"initial":"planning"', '"meta":{"color":"blue"},"initial":"planning"'],
    ['the order of keys', '"id":"modelTurn","src":"modelTurn"', '"src":"modelTurn","id":"modelTurn"'],
  ])('is unchanged by %s', (_what, from, to) => {
    expect(hashWith(from, to)).toBe(structuralHash());
  });

  it.each([
    ['a guard', '"canDecide"', '"mayDecide"'],
    ["a guard's parameters", '"type":"backOff"', '"type":"wait"'],
    ['a target', '"target":"deciding"', '"target":"resting"'],
    ['a state', '"inDoubt":', '"doubtful":'],
    ['an event', '"timer.fired"', '"timer.rang"'],
    ['an action', '"beginBatch"', '"startBatch"'],
    ['a service', '"src":"toolBatch"', '"src":"toolRunner"'],
    ["a service's id", '"id":"answerCheck"', '"id":"checks"'],
    ['the initial state', '"initial":"planning"', '"initial":"finalStreaming"'],
    ['a final state made atomic', '"type":"final"', '"type":"atomic"'],
  ])('is changed by %s', (_what, from, to) => {
    expect(hashWith(from, to)).not.toBe(structuralHash());
  });

  it('is changed by the order of guarded transitions, and by the names of states', () => {
    const deciding = JSON.parse(DEFINITION);
    deciding.states.deciding.always.reverse();
    expect(hashDefinition(deciding)).not.toBe(structuralHash());
    const named = (name: string) => hashDefinition({ states: { [name]: {} } });
    expect(new Set(['meta', 'description', 'tags', 'other'].map(named)).size).toBe(4);
  });
});

describe('a stored state', () => {
  const stored = (): StoredState => toStored(begin().state);

  it('is JSON with the identity of the chart', () => {
    const state = stored();
    expect(throughJson(state)).toStrictEqual(state);
    expect(state.chart).toEqual({ version: CHART_VERSION, hash: structuralHash() });
    expect(Object.keys(state).sort()).toEqual(['chart', 'context', 'status', 'value']);
  });

  it('of another chart version is refused, naming both versions', () => {
    const refusal = refusalOf({ ...stored(), chart: { ...chartIdentity(), version: 999 } });
    expect(refusal.code).toBe('chart-mismatch');
    expect(refusal.message).toContain('999');
    expect(refusal.message).toContain(`version ${CHART_VERSION} `);
  });

  it('of a chart with another structure is refused, naming both hashes', () => {
    const hash = hashWith('"src":"toolBatch"', '"src":"toolRunner"');
    const refusal = refusalOf({ ...stored(), chart: { ...chartIdentity(), hash } });
    expect(refusal.code).toBe('chart-mismatch');
    expect(refusal.message).toContain(hash);
    expect(refusal.message).toContain(structuralHash());
  });

  it.each<unknown>([
    'thinking',
    { turn: 'thinking' },
    { resting: 'asleep' },
    'turn',
    { turn: {} },
    { finished: null },
    { turn: 'planning', resting: 'paused' },
    'constructor',
    '__proto__',
    { turn: 'toString' },
    null,
  ])('with the unknown value %j is refused, naming it', value => {
    const refusal = refusalOf({ ...stored(), value: value as StoredState['value'] });
    expect(refusal.code).toBe('state-unknown');
    expect(refusal.message).toContain(JSON.stringify(value));
  });

  it('a service that the chart does not have is refused by name', () => {
    expect(() => serviceNamed('toolRunner')).toThrow('toolRunner');
    expect(() => serviceNamed(undefined)).toThrow('no service');
  });
});

describe('a restored state', () => {
  const waits: [string, () => ChartRun, UntimedEvent, string[]][] = [
    ['turn', () => begin(), answering('done'), ['modelTurn']],
    ['executingTools', () => begin().send(calling(makeCall('a'))), starting('a'), []],
    ['backingOff', () => begin().send(failing({ retryAt: 9e9 })), { type: 'timer.fired' }, ['timer']],
    ['finishing', () => begin({ checksAnswer: true }).send(answering('done')), saying('no'), ['answerCheck']],
    [
      'resting, with an approval that expires',
      () => begin().send(calling(gated('a', { expiresAt: 9e9 }))),
      saying('no'),
      ['timer'],
    ],
    ['resting', () => begin().send(calling(gated('a'))), saying('no'), []],
  ];

  it.each(waits)('in %s waits for the same service, and stops it by its id', (_name, make, event, stops) => {
    const run = make();
    const restored = fromStored(throughJson(toStored(run.state)));
    expect(pendingServices(restored)).toEqual(pendingServices(run.state));
    const step = next(restored, stamp(run.context, event));
    expect(step.handled).toBe(true);
    expect(step.effects).toEqual(run.offer(event).effects);
    expect(step.effects.flatMap(effect => (effect.type === 'stop' ? [effect.id] : []))).toEqual(stops);
    expect(toStored(step.state)).toEqual(toStored(run.state));
  });

  it('restarts the pending service with the same input', () => {
    for (const [, make] of waits) {
      const run = make();
      const running = new Map<string, unknown>();
      for (const effect of run.effects) {
        if (effect.type === 'start') running.set(effect.id, effect);
        if (effect.type === 'stop') running.delete(effect.id);
      }
      expect(pendingServices(fromStored(toStored(run.state)))).toEqual([...running.values()]);
    }
  });

  it('that had ended accepts no event and has no pending service', () => {
    const run = begin().send(answering('done'));
    const restored = fromStored(throughJson(toStored(run.state)));
    expect(pendingServices(restored)).toEqual([]);
    const step = next(restored, stamp(run.context, saying('hello')));
    expect(step).toEqual({ state: restored, effects: [], handled: false });
  });
});
