import { abstractState } from '../../explore/abstract-state.ts';
import type { Environment } from '../../explore/environment.ts';
import { nameEdge } from '../../explore/explorer.ts';
import { generateEvents } from '../../explore/generate-events.ts';
import { followReference, type ReferenceModel, startReference } from '../../explore/reference-model.ts';
import { agentMachine } from '../../machines/agent.ts';
import { chartIdentity } from '../../machines/snapshot.ts';
import { type ChartState, makeStepper } from '../../machines/step.ts';
import type { ChartEvent, RunEvent, RunStarted } from '../../protocol/event.ts';
import { makeConfig, makeStarted } from '../support/machines/builders.ts';
import { WALKS } from '../support/machines/walks.ts';

export type EdgeJournal = { edges: string[]; events: RunEvent[] };

type Place = { state: ChartState; ledger: ReferenceModel; from: { place: Place; event: ChartEvent } | null };

const chart = makeStepper(agentMachine);

/** For every edge that a walk can take: a shortest journal that takes it, followed by a shortest path to an end. */
export function findEdgeJournals(): EdgeJournal[] {
  const found = new Map<string, RunEvent[]>();
  for (const { config, environment } of WALKS) {
    const started = { ...makeStarted(makeConfig(config)), chart: chartIdentity() };
    for (const [edge, taken] of findFirstTaken(started, environment)) {
      const events = [started, ...eventsTo(taken), ...eventsToEnd(taken, environment)];
      const known = found.get(edge);
      if (known === undefined || events.length < known.length) found.set(edge, events);
    }
  }
  const byJournal = new Map<string, EdgeJournal>();
  for (const [edge, events] of found) {
    const key = JSON.stringify(events);
    const { edges } = byJournal.get(key) ?? { edges: [] };
    byJournal.set(key, { edges: [...edges, edge].sort(), events });
  }
  return [...byJournal.values()];
}

/** Breadth-first search that visits each abstract state once; maps each edge to its first use. */
function findFirstTaken(started: RunStarted, environment: Environment): Map<string, Place> {
  const taken = new Map<string, Place>();
  const step = chart.initial(started);
  const first: Place = { state: step.state, ledger: startReference(started, step), from: null };
  for (const place of walkFrom(first, environment)) {
    for (const event of generateEvents(place.state, environment)) {
      const after = take(place, event);
      if (after === null) continue;
      for (const edge of chart.trace(place.state, event).edges.map(nameEdge))
        if (!taken.has(edge)) taken.set(edge, after);
    }
  }
  return taken;
}

function* walkFrom(first: Place, environment: Environment): Generator<Place> {
  const known = new Set([abstractState(first.state, first.ledger)]);
  const queue = [first];
  for (const place of queue) {
    yield place;
    for (const event of generateEvents(place.state, environment)) {
      const isUnasked = event.type === 'run.cancelled' && place.state.context.cancelling === null;
      const after = isUnasked ? null : take(place, event);
      const key = after === null ? '' : abstractState(after.state, after.ledger);
      if (after === null || known.has(key)) continue;
      known.add(key);
      queue.push(after);
    }
  }
}

function take(place: Place, event: ChartEvent): Place | null {
  const step = chart.next(place.state, event);
  if (!step.handled) return null;
  return { state: step.state, ledger: followReference(place.ledger, event, step), from: { place, event } };
}

function eventsTo(place: Place): ChartEvent[] {
  const events: ChartEvent[] = [];
  for (let here = place; here.from !== null; here = here.from.place) events.unshift(here.from.event);
  return events;
}

/** A shortest path to an end without an immediate cancellation. */
function eventsToEnd(start: Place, environment: Environment): ChartEvent[] {
  for (const place of walkFrom({ ...start, from: null }, environment))
    if (place.state.status !== 'active') return eventsTo(place);
  throw new Error(`no end can be reached from ${JSON.stringify(start.state.value)}`);
}
