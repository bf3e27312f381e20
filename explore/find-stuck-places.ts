import type { Walk } from './explorer.ts';
import type { Place } from './place.ts';

/** Returns the places of a complete walk from which only cancelling ends the run. */
export function findStuckPlaces({ places, moves }: Walk): Place[] {
  const before: number[][] = places.map(() => []);
  for (const [from, to] of moves) before[to]?.push(from);
  const ended = places.flatMap(({ state }, index) => (state.status === 'active' ? [] : [index]));
  const canEnd = new Set(ended);
  const queue = [...ended];
  for (let to = queue.pop(); to !== undefined; to = queue.pop()) {
    for (const from of before[to] ?? []) {
      if (canEnd.has(from)) continue;
      canEnd.add(from);
      queue.push(from);
    }
  }
  return places.filter((_, index) => !canEnd.has(index));
}
