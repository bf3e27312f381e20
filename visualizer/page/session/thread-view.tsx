// A thread: its conversation, and the runs that it is made of.

import type { Item } from '../../../protocol/item.ts';
import { useTitle } from '../app/router.ts';
import { type RunSummary, requestServer } from '../data/request.ts';
import { useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { showSafe } from '../render/format.ts';
import { StatusBadge } from '../ui/button.tsx';
import { Facts, ProblemText, Safe } from '../ui/text.tsx';
import { Conversation, listFacts, RunLinks } from './session-view.tsx';

/** As `GET /threads/ID` answers. */
type ThreadAnswer = { messages: Item[]; runs: RunSummary[] };

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
        <a href="/runs">Runs</a>
      </p>
      <h1 tabIndex={-1}>
        <Safe text={title} /> {latest && <StatusBadge status={latest.status} />}
      </h1>
      <ProblemText text={problem} />
      {answer && <Facts class="facts" of={[['Thread', showSafe(id)], ...listFacts(runs, [], null)]} />}
      {answer && <Conversation key={path} items={messages} />}
      {runs.length > 0 && <RunLinks title="Runs" runs={runs.toReversed()} />}
    </main>
  );
}
