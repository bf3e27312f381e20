// A thread: its conversation, and the runs that it is made of.

import type { Item } from '../../../protocol/item.ts';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { useTitle } from '../app/router.ts';
import { type RunSummary, requestServer } from '../data/request.ts';
import { useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { formatDuration, formatNumber, showSafe } from '../render/format.ts';
import { StatusBadge } from '../ui/button.tsx';
import { type Fact, Facts, ProblemText, Safe } from '../ui/text.tsx';
import { Conversation, RunLinks } from './session-view.tsx';

/** As `GET /threads/ID` answers. */
type ThreadAnswer = {
  labels: Record<string, string>;
  messages: Item[];
  runs: RunSummary[];
  totals: { turns: number; tokens: number; cost: number; activeMs: number };
};

export function ThreadView({ source, path, id }: { source: PageSource; path: string; id: string }) {
  const { answer, problem, again } = useRead(() => requestServer<ThreadAnswer>(path), [path]);
  useNews(source, ['ready', 'summary', 'removed'], again);
  const { runs = [], messages = [] } = answer ?? {};
  const title = runs[0]?.title || id;
  const latest = runs.at(-1);
  useTitle(showSafe(title));
  return (
    <main class="session">
      <p>
        <a href="/">Runs</a>
      </p>
      <h1 tabIndex={-1}>
        <Safe text={title} /> {latest && <StatusBadge status={latest.status} />}
      </h1>
      <ProblemText text={problem} />
      {answer && <Facts class="facts" of={listFacts(id, answer)} />}
      {answer && <Conversation key={path} items={messages} />}
      {runs.length > 0 && <RunLinks title="Runs" runs={runs.toReversed()} />}
    </main>
  );
}

function listFacts(id: string, { labels, totals }: ThreadAnswer): Fact[] {
  const named = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
  return [
    ['Thread', showSafe(id)],
    named.length > 0 && ['Labels', showSafe(named.join(', '))],
    ['Turns', formatNumber(totals.turns)],
    ['Tokens', formatNumber(totals.tokens)],
    totals.cost > 0 && ['Cost', formatCost(totals.cost)],
    ['At work', formatDuration(totals.activeMs)],
  ];
}
