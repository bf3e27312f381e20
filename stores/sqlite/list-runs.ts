import { omitUndefined } from '../../protocol/json.ts';
import type { ListQuery } from '../list-query.ts';
import type { Row } from '../sql/rows.ts';
import { escapeText } from '../sql/rows.ts';
import { RECORD, type Statements } from './statements.ts';

type Value = string | number;

type Condition = { where: string; values: readonly Value[] };

/** An index with the runs of one condition in the order of the list. `key` has `created_at` and `run_id`. */
type Path = Condition & { from: string; join: string; key: 'runs' | 'found' };

const BY_AGE: Path = {
  from: 'runs INDEXED BY runs_by_age',
  join: '',
  key: 'runs',
  where: 'TRUE',
  values: [],
};

/** Up to how many runs of a condition are counted, to choose the narrowest one. */
const MOST_COUNTED = 1_000;

export function findRuns(sql: Statements, query: ListQuery): Row[] {
  const { order, limit } = query;
  const paths = pathsOf(query);
  const path = narrowest(sql, paths);
  const others = paths.filter(other => other !== path).map(asCondition);
  const conditions = [path, ...others, ...rangesOf(query, path.key)];
  const where = conditions.map(condition => condition.where).join(' AND ');
  const values = conditions.flatMap(condition => condition.values);
  const direction = order === 'asc' ? 'ASC' : 'DESC';
  return sql
    .prepare(
      `SELECT ${RECORD} FROM ${path.from} ${path.join} WHERE ${where}
       ORDER BY ${path.key}.created_at ${direction}, ${path.key}.run_id ${direction} LIMIT ?`,
    )
    .all(...values, limit + 1);
}

function pathsOf({ status, agent, parent, labels }: ListQuery): Path[] {
  const ofColumns = Object.entries(omitUndefined({ parent, status, agent })).map(
    ([column, value]): Path => ({
      ...BY_AGE,
      from: `runs INDEXED BY runs_by_${column}`,
      where: `runs.${column} = ?`,
      values: [escapeText(value)],
    }),
  );
  const ofLabels = Object.entries(labels).map(
    (label): Path => ({
      from: 'labels AS found INDEXED BY labels_by_value',
      join: 'CROSS JOIN runs ON runs.run = found.run',
      key: 'found',
      where: 'found.name = ? AND found.value = ?',
      values: label,
    }),
  );
  return [...ofColumns, ...ofLabels];
}

/** Counts through the indexes alone; reads no record. */
function narrowest(sql: Statements, paths: readonly Path[]): Path {
  const [first = BY_AGE, ...others] = paths;
  if (others.length === 0) return first;
  let best = { path: first, count: Number.POSITIVE_INFINITY };
  for (const path of paths) {
    const { from, where, values } = path;
    const counted = `SELECT count(*) AS count FROM (SELECT 1 FROM ${from} WHERE ${where} LIMIT ${MOST_COUNTED})`;
    const count = Number(sql.prepare(counted).get(...values)?.count);
    if (count < best.count) best = { path, count };
  }
  return best.path;
}

function asCondition({ key, where, values }: Path): Condition {
  if (key === 'runs') return { where, values };
  return {
    where: `EXISTS (SELECT 1 FROM labels AS other WHERE other.run = runs.run AND ${where.replaceAll('found.', 'other.')})`,
    values,
  };
}

/** The conditions that no index answers alone: times, the place of the cursor, and the text. */
function rangesOf({ since, before, after, order, text }: ListQuery, key: Path['key']): Condition[] {
  const ranges: Condition[] = [];
  if (since !== undefined) ranges.push({ where: `${key}.created_at >= ?`, values: [since] });
  if (before !== undefined) ranges.push({ where: `${key}.created_at < ?`, values: [before] });
  if (after !== undefined)
    ranges.push({
      where: `(${key}.created_at, ${key}.run_id) ${order === 'asc' ? '>' : '<'} (?, ?)`,
      values: [after.createdAt, after.runId],
    });
  if (text !== undefined) ranges.push({ where: 'instr(runs.search, ?) > 0', values: [text] });
  return ranges;
}
