import { type ChartState, initial, next, type Step } from '../../machines/step.ts';
import type { RunConfig } from '../../protocol/config.ts';
import type { Effect } from '../../protocol/effect.ts';
import type { ChartEvent } from '../../protocol/event.ts';
import { abstractState } from './abstract-state.ts';
import { makeStarted } from './builders.ts';
import { generateEvents, type World } from './generate-events.ts';
import { beginHistory, continueHistory, type History } from './history.ts';

/** A state of the chart and one way that leads to it. */
export type Place = {
  index: number;
  key: string;
  state: ChartState;
  history: History;
  from: { place: Place; event: ChartEvent } | null;
};

/** An event offered in a place, and what the chart made of it. */
export type Offered = { before: Place; event: ChartEvent; fits: boolean; step: Step; history: History };

export type Exploration = {
  places: Place[];
  /** Taken edges as pairs of indices, cancellations left out. */
  moves: [from: number, to: number][];
  offers: number;
};

export type Watcher = {
  onPlace(place: Place, effects: readonly Effect[]): void;
  /** For every offer, whether it was taken or not; `merged` is the place known before, if there is one. */
  onOffer(offered: Offered, merged: Place | undefined): void;
};

/** A walk of these sizes that finds more places has found a counter that nothing bounds. */
const MOST_PLACES = 10_000;

/**
 * Walks, breadth first, over everything a run of `config` can do in `world`. States that share a key
 * are one place, walked on from once.
 */
export function explore(config: RunConfig, world: World, watcher: Watcher): Exploration {
  const places: Place[] = [];
  const moves: [number, number][] = [];
  const known = new Map<string, Place>();
  let offers = 0;

  const discover = (place: Omit<Place, 'index'>, effects: readonly Effect[]): Place => {
    if (places.length >= MOST_PLACES) throw new Error(`the walk does not close, at ${place.key}`);
    const found = { ...place, index: places.length };
    places.push(found);
    known.set(found.key, found);
    watcher.onPlace(found, effects);
    return found;
  };

  const { state, effects } = initial(makeStarted(config));
  discover({ key: abstractState(state), state, history: beginHistory(effects), from: null }, effects);

  for (let index = 0; index < places.length; index += 1) {
    const before = places[index];
    if (before === undefined) break;
    for (const { event, fits } of generateEvents(before.state, world)) {
      offers += 1;
      const step = next(before.state, event);
      if (!step.handled) {
        watcher.onOffer({ before, event, fits, step, history: before.history }, undefined);
        continue;
      }
      const history = continueHistory(before.history, event, before.state, step);
      const key = abstractState(step.state);
      const merged = known.get(key);
      watcher.onOffer({ before, event, fits, step, history }, merged);
      const from = { place: before, event };
      const after = merged ?? discover({ key, state: step.state, history, from }, step.effects);
      if (event.type !== 'run.cancelled') moves.push([before.index, after.index]);
    }
  }
  return { places, moves, offers };
}

/** The events that lead to a place, from the start. */
export function eventsTo(place: Place): ChartEvent[] {
  const events: ChartEvent[] = [];
  for (let here = place; here.from !== null; here = here.from.place) events.unshift(here.from.event);
  return events;
}

/** The places from which no end can be reached but by cancelling. */
export function findStuckPlaces({ places, moves }: Exploration): Place[] {
  const before: number[][] = places.map(() => []);
  for (const [from, to] of moves) before[to]?.push(from);
  const reaching = new Set(places.filter(({ state }) => state.status === 'done').map(({ index }) => index));
  const queue = [...reaching];
  for (let to = queue.pop(); to !== undefined; to = queue.pop()) {
    for (const from of before[to] ?? []) {
      if (reaching.has(from)) continue;
      reaching.add(from);
      queue.push(from);
    }
  }
  return places.filter(({ index }) => !reaching.has(index));
}
