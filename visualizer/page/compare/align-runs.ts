import type { StreamedEvent } from '../data/request.ts';

/** A row of two journals side by side. `same` and `changed` rows have both entries. */
export type AlignedRow = {
  kind: 'same' | 'changed' | 'left' | 'right';
  left?: StreamedEvent;
  right?: StreamedEvent;
};

/** The most entries after the first difference that are matched with each other; more are paired by their order. */
const MOST = 600;

/** Entries about claims differ in every run and say nothing about what the run did. */
const SKIPPED: ReadonlySet<string> = new Set(['run.claimed', 'run.noted', 'run.redacted']);

/**
 * Returns the content of an entry for comparison, without values that differ in every run, such as ids, times and
 * processes.
 */
export type Describe = (event: StreamedEvent) => string;

/**
 * Aligns two journals: equal entries up to the first difference, then entries of the same type about the same tool.
 * `first` is the index of the first row that is not `same`; -1 for equal journals.
 */
export function alignRuns(
  left: readonly StreamedEvent[],
  right: readonly StreamedEvent[],
  describe: { left: Describe; right: Describe; shape: Describe },
): { rows: AlignedRow[]; first: number } {
  const [old, now] = [left, right].map(events => events.filter(({ type }) => !SKIPPED.has(type)));
  if (old === undefined || now === undefined) return { rows: [], first: -1 };
  const rows: AlignedRow[] = [];
  const isSame = (one: StreamedEvent, other: StreamedEvent): boolean =>
    one.type === other.type && describe.left(one) === describe.right(other);
  const pair = (one: StreamedEvent, other: StreamedEvent): void => {
    rows.push({ kind: isSame(one, other) ? 'same' : 'changed', left: one, right: other });
  };
  let common = 0;
  for (; common < Math.min(old.length, now.length); common += 1) {
    const [one, other] = [old[common], now[common]];
    if (one === undefined || other === undefined || !isSame(one, other)) break;
    pair(one, other);
  }
  const [rest, others] = [old.slice(common), now.slice(common)];
  for (const [one, other] of matchEntries(rest, others, describe.shape)) {
    if (one !== undefined && other !== undefined) pair(one, other);
    else if (one !== undefined) rows.push({ kind: 'left', left: one });
    else if (other !== undefined) rows.push({ kind: 'right', right: other });
  }
  return { rows, first: rows.findIndex(({ kind }) => kind !== 'same') };
}

type Pair = [StreamedEvent | undefined, StreamedEvent | undefined];

function matchEntries(old: readonly StreamedEvent[], now: readonly StreamedEvent[], shape: Describe): Pair[] {
  if (old.length > MOST || now.length > MOST)
    return Array.from({ length: Math.max(old.length, now.length) }, (_, at): Pair => [old[at], now[at]]);
  const [left, right] = [old.map(shape), now.map(shape)];
  const common = measureCommon(left, right);
  const pairs: Pair[] = [];
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
