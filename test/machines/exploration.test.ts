import { isDeepStrictEqual } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { abstractState } from '../../explore/abstract-state.ts';
import { BUILT_IN } from '../../explore/built-in-invariants.ts';
import type { Environment } from '../../explore/environment.ts';
import {
  type Walk as Exploration,
  Explorer,
  eventsTo,
  nameEdge,
  type WalkPlace,
} from '../../explore/explorer.ts';
import { generateEvents } from '../../explore/generate-events.ts';
import { followReference } from '../../explore/reference-model.ts';
import { findStuckPlaces } from '../../explore/walks.ts';
import { agentMachine } from '../../machines/agent.ts';
import {
  type ChartState,
  listEdges,
  listStates,
  makeStepper,
  next,
  type Step,
  statePath,
} from '../../machines/step.ts';
import { type ChartEvent, runEventSchema } from '../../protocol/event.ts';
import { makeConfig, makeStarted } from '../support/machines/builders.ts';
import { nameEffect, transitionOf } from '../support/machines/reference-step.ts';
import { WALKS, type Walk } from '../support/machines/walks.ts';
import { SAMPLE_SEED, sampled, TAKES_ALL } from '../support/sample.ts';

/**
 * Explores all behavior of a run under small limits: each walk is exhaustive, and every step is checked.
 * A failure lists the events that lead to it.
 */

const COMPILED = 'the compiled chart takes the same step as XState';
const PURE = 'the step equals the pure transition of XState in value, context and effects';
const ALIKE = 'states that the walk merges have the same successors';
const VOCABULARY = 'the walk generates only valid events';
const LAST = 'a service that its own report stops has nothing left to do';

/**
 * Sampling intervals of the repeated steps: with XState and with the pure `transition`, and
 * from merged states.
 */
const COMPILED_SAMPLE = TAKES_ALL ? 1 : 61;
const PURE_SAMPLE = TAKES_ALL ? 29 : 293;
const ALIKE_SAMPLE = TAKES_ALL ? 97 : 293;

/** The smallest walks that together take every edge, and one more; all in `npm run test:all`. */
const CHOSEN = [
  ...WALKS.filter(walk => walk.isBasic),
  ...sampled(
    WALKS.filter(walk => !walk.isBasic),
    1,
  ),
];

const MOST_PLACES = 12_000;

const xstate = makeStepper(agentMachine, { compiles: false });

const failures = new Map<string, string[]>();
const takenEdges = new Set<string>();
const explorations = new Map<string, Exploration>();

function note(property: string, walk: Walk, place: WalkPlace, wrong: string | null, last = ''): void {
  if (wrong === null) return;
  const found = failures.get(property) ?? [];
  failures.set(property, found);
  const path = [...eventsTo(place).map(event => JSON.stringify(event)), last].join('\n    ');
  if (found.length < 2)
    found.push(`${wrong}\n  in ${statePath(place.state)} of "${walk.name}" after\n    ${path}`);
}

function walkOver(walk: Walk): Exploration {
  const { environment } = walk;
  let taken = 0;
  let merges = 0;
  const explorer = new Explorer(agentMachine, makeStarted(makeConfig(walk.config)), [], {
    onTaken(before, event, step, merged) {
      const fail = (property: string, wrong: string | null) =>
        note(property, walk, before, wrong, JSON.stringify(event));
      taken += 1;
      fail(LAST, findWorkLeft(event, step));
      if ((taken + SAMPLE_SEED) % COMPILED_SAMPLE === 0) {
        const expected = look(xstate.next(before.state, event));
        fail(COMPILED, isDeepStrictEqual(look(step), expected) ? null : 'they differ');
      }
      if ((taken + SAMPLE_SEED) % PURE_SAMPLE === 0) {
        const pure = transitionOf(before.state, event);
        const expected = toText(step.state, step.effects.map(nameEffect));
        fail(PURE, differ(expected, toText(pure.state, pure.effects)));
        fail(VOCABULARY, runEventSchema.safeParse(event).error?.message ?? null);
      }
      if (merged !== undefined && ++merges % ALIKE_SAMPLE === 0) {
        const here = { state: step.state, reference: followReference(before.reference, event, step) };
        fail(ALIKE, differ(waysOn(merged, environment), waysOn(here, environment)));
      }
    },
  });
  const exploration = explorer.walk([explorer.start], {
    environment,
    detail: 'chart',
    mostPlaces: MOST_PLACES,
  });
  for (const edge of explorer.coverage.edges) takenEdges.add(edge);
  for (const { invariant, message, before, event } of explorer.breaches.values()) {
    note(invariant, walk, before, message, JSON.stringify(event));
  }
  return exploration;
}

/** The observable parts of a step. Pending services are stubs here and actors in XState, so that only ids compare. */
function look({ state, effects, handled }: Step): unknown {
  const { value, context, status, tags, children } = state;
  return { value, context, status, tags, children: Object.keys(children), effects, handled };
}

/** The driver does not abort a service that its own report stops (`Stop.end`). */
function findWorkLeft({ type, ...event }: ChartEvent, { state, effects }: Step): string | null {
  // A sign-in is found out before anything is begun.
  if (!('generation' in event) || type === 'sign-in.requested') return null;
  const service = serviceOf(type);
  if (!effects.some(effect => effect.type === 'stop' && effect.id === service)) return null;
  if (service !== 'toolBatch') return LAST_REPORTS.has(type) ? null : `${type} stops ${service}`;
  const left = state.context.calls.find(({ status }) => status === 'running' || status === 'reconciling');
  return left === undefined ? null : `${left.callId} is ${left.status}`;
}

const LAST_REPORTS: ReadonlySet<ChartEvent['type']> = new Set([
  'turn.completed',
  'turn.failed',
  'timer.fired',
  'answer.checked',
  'answer.blocked',
]);

function serviceOf(report: ChartEvent['type']): string {
  if (report.startsWith('tool.') || report === 'question.asked') return 'toolBatch';
  if (report.startsWith('answer.')) return 'answerCheck';
  return report === 'timer.fired' ? 'timer' : 'modelTurn';
}

function toText({ value, context, status }: ChartState, effects: readonly string[]): string {
  return JSON.stringify({ value, status, effects, context });
}

function differ(expected: string, actual: string): string | null {
  if (expected === actual) return null;
  let at = 0;
  while (expected[at] === actual[at]) at += 1;
  const from = Math.max(0, at - 60);
  return `expected …${expected.slice(from, at + 80)}…, got …${actual.slice(from, at + 80)}…`;
}

/** The keys of all successors of a state, with the effects on the way. */
function waysOn(
  { state, reference }: Pick<WalkPlace, 'state' | 'reference'>,
  environment: Environment,
): string {
  const ways = generateEvents(state, environment).map(event => {
    const step: Step = next(state, event);
    if (!step.handled) return '';
    const effects = step.effects.map(effect =>
      effect.type === 'publish' ? effect.notice.type : effect.type,
    );
    return [
      event.type,
      abstractState(step.state, followReference(reference, event, step), 'chart', environment),
      effects.join(),
    ].join(' ');
  });
  return [...new Set(ways)].sort().join('\n');
}

describe('all behavior of a run', () => {
  beforeAll(() => {
    for (const walk of CHOSEN) explorations.set(walk.name, walkOver(walk));
  });

  it.each([...BUILT_IN, COMPILED, PURE, ALIKE, VOCABULARY, LAST])('%s', property => {
    expect(failures.get(property) ?? []).toEqual([]);
  });

  it('every walk is exhaustive', () => {
    expect([...explorations].filter(([, { isComplete }]) => !isComplete).map(([name]) => name)).toEqual([]);
  });

  it('an end is reachable from every state without cancelling', () => {
    for (const [name, exploration] of explorations) {
      const stuck = findStuckPlaces(exploration).map(
        place => `${name}: ${abstractState(place.state, place.reference)}`,
      );
      expect(stuck).toEqual([]);
    }
  });

  it('every state of the chart is entered', () => {
    const entered = new Set([...takenEdges].flatMap(edge => edge.split(' -> ')[1] ?? []));
    for (const { places } of explorations.values()) {
      for (const { state } of places) {
        const place = statePath(state);
        entered.add(place).add(place.split('.')[0] ?? '');
      }
    }
    expect(listStates().filter(state => !entered.has(state))).toEqual([]);
  });

  it('every edge of the chart is taken', () => {
    const edges = listEdges().map(nameEdge);
    expect(edges.filter(edge => !takenEdges.has(edge))).toEqual([]);
    expect(edges.length).toBeGreaterThan(40);
  });

  it('the walks are large', () => {
    const sizes = [...explorations.values()];
    expect(sizes.reduce((sum, { places }) => sum + places.length, 0)).toBeGreaterThan(
      TAKES_ALL ? 15_000 : 4_000,
    );
    expect(sizes.reduce((sum, { moves }) => sum + moves.length, 0)).toBeGreaterThan(
      TAKES_ALL ? 200_000 : 45_000,
    );
  });
});
