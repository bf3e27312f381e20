import type { Place, Walk } from './explorer.ts';

/** The places of a complete walk from which no end can be reached but by cancelling. */
export function findStuckPlaces({ places, moves }: Walk): Place[] {
  const before: number[][] = places.map(() => []);
  for (const [from, to] of moves) before[to]?.push(from);
  const ended = places.flatMap(({ state }, index) => (state.status === 'active' ? [] : [index]));
  const reaching = new Set(ended);
  const queue = [...ended];
  for (let to = queue.pop(); to !== undefined; to = queue.pop()) {
    for (const from of before[to] ?? []) {
      if (reaching.has(from)) continue;
      reaching.add(from);
      queue.push(from);
    }
  }
  return places.filter((_, index) => !reaching.has(index));
}
