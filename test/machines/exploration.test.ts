import { beforeAll, describe, expect, it } from 'vitest';
import { fromStored, toStored } from '../../machines/snapshot.ts';
import { type ChartState, next } from '../../machines/step.ts';
import { runEventSchema } from '../../protocol/event.ts';
import { abstractState } from './abstract-state.ts';
import { makeConfig, placeOf } from './builders.ts';
import { listEdges, listStates } from './chart-edges.ts';
import { type Exploration, eventsTo, explore, findStuckPlaces, type Offered, type Place } from './explore.ts';
import { generateEvents, type World } from './generate-events.ts';
import { nameEffect, transitionOf, WatchedChart } from './reference-step.ts';
import { RUN_PROPERTIES } from './run-properties.ts';
import { WALKS, type Walk } from './walks.ts';

/**
 * Everything a run can do under small limits: each configuration is walked over completely, and what
 * holds is checked at every step. What went wrong is told with the events that lead there.
 */

const PURE = 'the step equals the pure transition of XState, in value, context and effects';
const PERSISTED = 'a state that went through JSON goes on as the one that did not';
const FITTING = 'what fits is taken, and what is stale, unknown or out of place is not';
const UNHANDLED = 'an event that is not taken gives back the very same state, and no effects';
const ENDED = 'a run that has ended takes no event';
const ALIKE = 'states the walk holds to be one go on alike';
const VOCABULARY = 'the walk offers only events of the vocabulary';
const STEP_PROPERTIES = [PURE, PERSISTED, FITTING, UNHANDLED, ENDED, ALIKE, VOCABULARY];

/** One step in so many is taken again: in a watched scope, by the pure `transition`, from a state held alike. */
const WATCHED_SAMPLE = 3;
const PURE_SAMPLE = 23;
const ALIKE_SAMPLE = 97;

const failures = new Map<string, string[]>();
const takenEdges = new Set<string>();
const explorations = new Map<string, Exploration>();

function note(property: string, walk: Walk, place: Place, wrong: string | null, last = ''): void {
  if (wrong === null) return;
  const found = failures.get(property) ?? [];
  failures.set(property, found);
  const path = [...eventsTo(place).map(event => JSON.stringify(event)), last].join('\n    ');
  if (found.length < 2)
    found.push(`${wrong}\n  in ${placeOf(place.state)} of "${walk.name}" after\n    ${path}`);
}

function walkOver(walk: Walk, watched: WatchedChart): Exploration {
  const config = makeConfig(walk.config);
  let taken = 0;
  let merges = 0;
  let restored: { place: Place; state: ChartState } | null = null;

  const restore = (place: Place): ChartState => {
    if (restored?.place !== place) restored = { place, state: throughJson(place.state) };
    return restored.state;
  };

  const checkTaken = (offered: Offered, merged: Place | undefined): void => {
    const { before, event, step, history } = offered;
    const fail = (property: string, wrong: string | null) =>
      note(property, walk, before, wrong, JSON.stringify(event));
    for (const [property, check] of Object.entries(RUN_PROPERTIES)) {
      const { state: after, effects } = step;
      fail(property, check({ before: before.state, event, after, effects, history }));
    }
    const expected = toText(step.state, step.effects.map(nameEffect));
    const again = next(restore(before), event);
    fail(PERSISTED, differ(expected, toText(again.state, again.effects.map(nameEffect))));
    taken += 1;
    if (merged === undefined || taken % WATCHED_SAMPLE === 0) {
      const seen = watched.step(before.state, event);
      for (const edge of seen.edges) takenEdges.add(edge);
      fail(PURE, differ(expected, toText(seen.state, seen.effects)));
    }
    if (taken % PURE_SAMPLE === 0) {
      const pure = transitionOf(before.state, event);
      fail(PURE, differ(expected, toText(pure.state, pure.effects)));
      fail(VOCABULARY, runEventSchema.safeParse(event).error?.message ?? null);
    }
    if (merged !== undefined && ++merges % ALIKE_SAMPLE === 0) {
      fail(ALIKE, differ(waysOn(merged.state, walk.world), waysOn(step.state, walk.world)));
    }
  };

  return explore(config, walk.world, {
    onPlace(place, effects) {
      const { state, history } = place;
      if (place.from !== null) return;
      for (const [property, check] of Object.entries(RUN_PROPERTIES)) {
        const start = { before: null, event: null, after: state, effects, history };
        note(property, walk, place, check(start));
      }
    },
    onOffer(offered, merged) {
      const { before, event, fits, step } = offered;
      const ended = before.state.status !== 'active';
      const fail = (property: string, wrong: string | null) =>
        note(property, walk, before, wrong, JSON.stringify(event));
      const wrong = step.handled === fits ? null : `it was ${step.handled ? '' : 'not '}taken`;
      fail(ended ? ENDED : FITTING, wrong);
      if (step.handled) checkTaken(offered, merged);
      else if (step.state !== before.state || step.effects.length > 0) fail(UNHANDLED, 'something changed');
    },
  });
}

function throughJson(state: ChartState): ChartState {
  return fromStored(JSON.parse(JSON.stringify(toStored(state))));
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

/** The keys of all that can follow a state, with what is asked for on the way. */
function waysOn(state: ChartState, world: World): string {
  const ways = generateEvents(state, world).map(({ event, fits }) => {
    const step = next(state, event);
    if (!fits && !step.handled) return '';
    const asked = step.effects.map(effect => (effect.type === 'publish' ? effect.notice.type : effect.type));
    return [event.type, fits, abstractState(step.state), asked.join()].join(' ');
  });
  return [...new Set(ways)].sort().join('\n');
}

describe('everything a run can do', () => {
  beforeAll(() => {
    const watched = new WatchedChart();
    for (const walk of WALKS) explorations.set(walk.name, walkOver(walk, watched));
  });

  it.each([...Object.keys(RUN_PROPERTIES), ...STEP_PROPERTIES])('%s', property => {
    expect(failures.get(property) ?? []).toEqual([]);
  });

  it('from every state an end can be reached without cancelling', () => {
    for (const [name, exploration] of explorations) {
      const stuck = findStuckPlaces(exploration).map(place => `${name}: ${place.key}`);
      expect(stuck).toEqual([]);
    }
  });

  it('every state of the chart is entered', () => {
    const entered = new Set([...takenEdges].flatMap(edge => edge.split(' -> ')[1] ?? []));
    for (const { places } of explorations.values()) {
      for (const { state } of places) {
        const place = placeOf(state);
        entered.add(place).add(place.split('.')[0] ?? '');
      }
    }
    expect(listStates().filter(state => !entered.has(state))).toEqual([]);
  });

  it('every edge of the chart is taken', () => {
    expect(listEdges().filter(edge => !takenEdges.has(edge))).toEqual([]);
    expect(listEdges().length).toBeGreaterThan(40);
  });

  it('the walk is not small', () => {
    const sizes = [...explorations.values()];
    expect(sizes.reduce((sum, { places }) => sum + places.length, 0)).toBeGreaterThan(7_000);
    expect(sizes.reduce((sum, { moves }) => sum + moves.length, 0)).toBeGreaterThan(60_000);
  });
});
