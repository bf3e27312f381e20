/** The elements of two lists in order, paired where they are equal; an element without an equal one is alone. */
export type Pair<Element> = [Element | undefined, Element | undefined];

const MOST = 600;

/** Pairs the elements of a longest common subsequence, compared by their keys; `null` for more than 600 elements. */
export function pairEqual<Element>(
  old: readonly Element[],
  now: readonly Element[],
  keyOf: (element: Element) => string,
): Pair<Element>[] | null {
  if (old.length > MOST || now.length > MOST) return null;
  const [left, right] = [old.map(keyOf), now.map(keyOf)];
  const common = measureCommon(left, right);
  const pairs: Pair<Element>[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    const [removing, adding] = [common[i + 1]?.[j] ?? -1, common[i]?.[j + 1] ?? -1];
    if (i < old.length && j < now.length && left[i] === right[j]) pairs.push([old[i++], now[j++]]);
    else if (j >= now.length || (i < old.length && removing >= adding)) pairs.push([old[i++], undefined]);
    else pairs.push([undefined, now[j++]]);
  }
  return pairs;
}

/** `table[i][j]` is the length of the longest common subsequence of `old` from i and `now` from j. */
function measureCommon(old: readonly string[], now: readonly string[]): Uint16Array[] {
  const table = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i -= 1)
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const [row, below] = [table[i], table[i + 1]];
      if (row === undefined || below === undefined) continue;
      row[j] = old[i] === now[j] ? (below[j + 1] ?? 0) + 1 : Math.max(below[j] ?? 0, row[j + 1] ?? 0);
    }
  return table;
}

type DiffLine = { kind: 'same' | 'removed' | 'added'; text: string };

/** A line diff of two texts. If a text is longer than 600 lines: all old lines, then all new ones. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  const pairs = pairEqual(old, now, line => line) ?? [
    ...old.map((line): Pair<string> => [line, undefined]),
    ...now.map((line): Pair<string> => [undefined, line]),
  ];
  return pairs.map(([was, is]) => {
    if (was === undefined) return { kind: 'added', text: is ?? '' };
    return { kind: is === undefined ? 'removed' : 'same', text: was };
  });
}
