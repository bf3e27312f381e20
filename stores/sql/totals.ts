import type { TotalsRow } from '../../protocol/listing/totals.ts';
import { type Group, groupKeysOf, type SumQuery } from '../totals.ts';
import { type Row, type SqlCondition, unescapeText } from './rows.ts';

const COLUMNS = { status: 'status', agent: 'agent', model: 'model', errorCode: 'error_code' } as const;

/** How a database writes the start of a step, and the value of the label of a run; `?` stands for step and name. */
type Dialect = { runs: string; step: string; label: string; text: string };

/** The columns of a statement that adds up runs, as SQL, and what follows its conditions. */
export function sumSql({ groups, every }: SumQuery, { runs, step, label, text }: Dialect) {
  const at = every === undefined ? [] : [{ where: `${step} AS at`, values: [every, every] }];
  const keys = groups.map(
    (group, index): SqlCondition =>
      group.member === 'label'
        ? { where: `(${label})${text} AS key${index}`, values: [group.name] }
        : { where: `${runs}.${COLUMNS[group.member]}${text} AS key${index}`, values: [] },
  );
  const parts = [...at, ...keys];
  const sums = ['turns', 'tokens', 'cached', 'cached_of', 'cost', 'active_ms'].map(
    name => `sum(${runs}.${name}) AS ${name}`,
  );
  const doubts = `sum(CASE WHEN ${runs}.status = 'waiting' THEN ${runs}.doubted ELSE 0 END) AS doubts`;
  const numbers = parts.map((_, index) => String(index + 1));
  const order = numbers.map((number, index) =>
    index < at.length ? `${number} DESC` : `${number} NULLS FIRST`,
  );
  return {
    columns: [...parts.map(({ where }) => where), 'count(*) AS runs', ...sums, doubts].join(', '),
    values: parts.flatMap(({ values }) => values),
    end: numbers.length === 0 ? '' : `GROUP BY ${numbers.join(', ')} ORDER BY ${order.join(', ')}`,
  };
}

export function toTotalsRow(groups: readonly Group[], row: Row): TotalsRow {
  const values = groups.map(({ member }, index) => {
    const value = row[`key${index}`];
    if (typeof value !== 'string') return undefined;
    return member === 'label' ? value : unescapeText(value);
  });
  return {
    ...groupKeysOf(groups, values, typeof row.at === 'number' ? row.at : undefined),
    runs: Number(row.runs),
    turns: Number(row.turns),
    tokens: Number(row.tokens),
    cached: Number(row.cached),
    cachedOf: Number(row.cached_of),
    cost: Number(row.cost),
    activeMs: Number(row.active_ms),
    doubts: Number(row.doubts),
  };
}
