// visualizer/page/views: the list of runs.

import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { useTitle } from '../app/router.ts';
import { lostSince, useNews } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import type { Sums } from '../data/totals.ts';
import { formatCount, formatDuration, formatNumber, joinFacts, showSafe } from '../render/format.ts';
import { ProblemText } from '../ui/text.tsx';
import { Bulk } from './bulk.tsx';
import { ColumnMenu, RunFilters, StatusChips } from './filters.tsx';
import { NewRunButton } from './new-run-button.tsx';
import { choosesAll, readRunFilter } from './run-filter.ts';
import { RunPages } from './run-pages.ts';
import { RunTable } from './run-table.tsx';
import { SavedViews } from './saved-views.tsx';

export function RunsView({ source, query }: { source: PageSource; query: URLSearchParams }) {
  const filter = readRunFilter(query);
  const pages = useMemo(() => new RunPages(filter), [JSON.stringify(filter)]);
  const isLost = lostSince.value !== null;
  useEffect(() => () => pages.close(), [pages]);
  useEffect(() => {
    if (!isLost) void pages.read();
  }, [pages, isLost]);
  useNews(source, ['ready', 'summary', 'removed'], () => pages.read());
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const notice = useSignal('');
  useTitle('Runs');
  const counts = pages.counts.value;
  const isEmpty = pages.isRead.value && pages.version.value > 0 && pages.count === 0;
  return (
    <main class="list">
      <header class="list-head">
        <h1 tabIndex={-1}>Runs</h1>
        <p class="muted totals">{counts && describeTotals(counts.sum)}</p>
        <SavedViews />
        <ColumnMenu filter={filter} />
        <NewRunButton agent={filter.agent} />
      </header>
      <RunFilters filter={filter} />
      <StatusChips filter={filter} counts={counts?.rows} />
      <ProblemText text={pages.problem.value} />
      <Bulk chosen={chosen} notice={notice} />
      <p class="notice" role="status">
        {showSafe(notice.value)}
      </p>
      {isEmpty ? (
        <p class="empty">
          {choosesAll(filter) ? (
            'No runs yet. Start one with New run, or with: agentchart run'
          ) : (
            <>
              No runs match. <a href="/runs">Show all runs</a>
            </>
          )}
        </p>
      ) : (
        <RunTable pages={pages} chosen={chosen} />
      )}
    </main>
  );
}

function describeTotals({ runs, tokens, cost, activeMs }: Sums): string {
  return joinFacts(
    formatCount(runs, 'run'),
    tokens > 0 && `${formatNumber(tokens)} tokens`,
    cost > 0 && formatCost(cost),
    activeMs > 0 && `${formatDuration(activeMs)} at work`,
  );
}
