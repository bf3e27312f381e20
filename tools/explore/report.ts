import { statePath } from '../../machines/step.ts';
import type { ExploredTool } from './describe-agent.ts';
import type { Breach, Explorer, PathEntry, Place } from './explorer.ts';

export type BreachReport = {
  invariant: string;
  message: string;
  /** From the start; the last entry is where it breaks. */
  path: PathEntry[];
};

export type ExplorationReport = {
  agent: string;
  /** Every place there is was walked on from: nothing was left out but what `notes` say. */
  complete: boolean;
  /** Different states, counted once for each walk that came to them. */
  states: number;
  /** Edges of the chart, by name; an agent without finishers or approvals has no way to some. */
  edges: { taken: number; total: number; missing: string[] };
  /** States at which the process was dropped and the run went on from its JSON in another. */
  crashPoints: number;
  /** What people and clients said about a call, and the chart took. */
  decisions: number;
  /** Events that were offered, taken or not. */
  steps: number;
  /** What was checked at every step. */
  invariants: string[];
  /** Each invariant that breaks, once, with the shortest path to it; the shortest first. */
  breaches: BreachReport[];
  tools: (Omit<ExploredTool, 'calls' | 'outputs'> & { inputs: number })[];
  /** What is not explored as it is, and why. */
  notes: string[];
};

export function tellBreach({ invariant, message, before, event }: Breach, explorer: Explorer): BreachReport {
  const path = listPlaces(before).map((place): PathEntry => tellStep(explorer, place));
  if (event !== null) path.push(explorer.tellStep(before, event));
  return { invariant, message, path };
}

function tellStep(explorer: Explorer, place: Place): PathEntry {
  if (place.from !== null) return explorer.tellStep(place.from.place, place.from.event);
  return {
    event: explorer.started,
    state: statePath(place.state),
    why: place.state.context.next?.why ?? null,
  };
}

function listPlaces(place: Place): Place[] {
  const places: Place[] = [];
  for (let here: Place | undefined = place; here !== undefined; here = here.from?.place) places.unshift(here);
  return places;
}
