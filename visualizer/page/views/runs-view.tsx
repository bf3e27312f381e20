// visualizer/page/views: the list of runs.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo } from 'preact/hooks';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { useTitle } from '../app/router.ts';
import { mayOperate } from '../data/caller.ts';
import { comparePath, describeThrown, requestServer } from '../data/request.ts';
import { lostSince, useNews } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import type { Sums } from '../data/totals.ts';
import { formatCount, joinFacts, showSafe } from '../render/format.ts';
import { Button } from '../ui/button.tsx';
import { ProblemText } from '../ui/text.tsx';
import { ActionButton } from '../ui/two-presses.tsx';
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
  // Asks before the first frame.
  useLayoutEffect(() => {
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

const MOST_AT_ONCE = 100;

type BulkProps = { chosen: Signal<ReadonlySet<string>>; notice: Signal<string> };

type BulkAnswer = { results: { runId: string; accepted: boolean; message?: string }[] };

/** What can be done with the chosen runs, while there are any. */
function Bulk({ chosen, notice }: BulkProps) {
  const ids = [...chosen.value];
  if (ids.length === 0 || !mayOperate()) return null;
  const submit = async (type: 'cancel' | 'resume', done: string): Promise<void> => {
    try {
      const results: BulkAnswer['results'] = [];
      for (let at = 0; at < ids.length; at += MOST_AT_ONCE) {
        const part = ids.slice(at, at + MOST_AT_ONCE);
        results.push(
          ...(await requestServer<BulkAnswer>('/runs/bulk', { runs: part, command: { type } })).results,
        );
      }
      const refused = results.filter(({ accepted }) => !accepted);
      const first = refused[0]?.message ?? '';
      notice.value = `${formatCount(results.length - refused.length, 'run')} ${done}.${refused.length === 0 ? '' : ` ${formatCount(refused.length, 'run')} refused: ${first}`}`;
      chosen.value = new Set();
    } catch (error) {
      notice.value = describeThrown(error);
    }
  };
  return (
    <fieldset class="bulk" aria-label="Chosen runs">
      <span>{formatCount(ids.length, 'run')} chosen</span>
      <ActionButton label="Resume" act={() => submit('resume', 'resumed')} />
      <ActionButton
        label="Cancel"
        class="danger"
        confirm={() => 'Really cancel them?'}
        act={() => submit('cancel', 'cancelled')}
      />
      {ids.length === 2 && <a href={comparePath(ids[0] ?? '', ids[1] ?? '')}>Compare</a>}
      <Button class="quiet" label="Clear" onClick={() => (chosen.value = new Set())} />
    </fieldset>
  );
}
