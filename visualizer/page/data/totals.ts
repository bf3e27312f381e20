import type { TotalsRow } from '../../../protocol/listing/totals.ts';
import { requestServer } from './request.ts';

export type Sums = Omit<TotalsRow, 'status' | 'agent' | 'model' | 'errorCode' | 'label' | 'at'>;

/** `groups` are the parameters that group the runs; `filter` those of a list that choose them. */
export async function askTotals(groups: string, filter: URLSearchParams): Promise<TotalsRow[]> {
  return (await requestServer<{ rows: TotalsRow[] }>(`/totals?${groups}&${filter}`)).rows;
}

export function sumTotals(rows: readonly Sums[]): Sums {
  const sum = (of: keyof Sums) => rows.reduce((total, row) => total + row[of], 0);
  return {
    runs: sum('runs'),
    turns: sum('turns'),
    tokens: sum('tokens'),
    cached: sum('cached'),
    cachedOf: sum('cachedOf'),
    cost: sum('cost'),
    activeMs: sum('activeMs'),
    doubts: sum('doubts'),
  };
}
