type DiffLine = { kind: 'same' | 'removed' | 'added'; text: string };

const MOST = 600;

/** A line diff of two texts. If a text is longer than 600 lines: all old lines, then all new ones. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  if (old.length > MOST || now.length > MOST) return [...mark(old, 'removed'), ...mark(now, 'added')];
  const common = measureCommon(old, now);
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length && j < now.length) {
    if (old[i] === now[j]) {
      lines.push({ kind: 'same', text: old[i] ?? '' });
      i += 1;
      j += 1;
    } else if ((common[i + 1]?.[j] ?? 0) >= (common[i]?.[j + 1] ?? 0)) {
      lines.push({ kind: 'removed', text: old[i] ?? '' });
      i += 1;
    } else {
      lines.push({ kind: 'added', text: now[j] ?? '' });
      j += 1;
    }
  }
  return [...lines, ...mark(old.slice(i), 'removed'), ...mark(now.slice(j), 'added')];
}

/** `table[i][j]` is the length of the longest common subsequence of `old` from line i and `now` from line j. */
function measureCommon(old: readonly string[], now: readonly string[]): number[][] {
  const table = Array.from({ length: old.length + 1 }, () => new Array<number>(now.length + 1).fill(0));
  for (let i = old.length - 1; i >= 0; i -= 1) {
    const row = table[i] ?? [];
    const below = table[i + 1] ?? [];
    for (let j = now.length - 1; j >= 0; j -= 1) {
      row[j] = old[i] === now[j] ? (below[j + 1] ?? 0) + 1 : Math.max(below[j] ?? 0, row[j + 1] ?? 0);
    }
  }
  return table;
}

function mark(lines: readonly string[], kind: DiffLine['kind']): DiffLine[] {
  return lines.map(text => ({ kind, text }));
}
