import { type InboxEntry, requestServer, runPath } from '../data/request.ts';
import { useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { formatDuration, formatNumber } from '../render/format.ts';
import { ProblemText, Safe } from '../ui/text.tsx';

/** What waits for someone, the longest wait first. */
export function Needs({ source }: { source: PageSource }) {
  const { answer, problem, again } = useRead(
    () => requestServer<{ items: InboxEntry[] }>('/inbox?limit=200&order=asc'),
    [],
  );
  useNews(source, ['ready', 'inbox', 'removed'], again);
  const items = answer?.items.toSorted((one, other) => one.since - other.since) ?? [];
  const doubts = items.filter(({ kind }) => kind === 'doubt').length;
  return (
    <section class="need" aria-label="Waiting">
      <ProblemText text={problem} />
      <p>
        <a href="/inbox">{`${formatNumber(items.length)} waiting, ${formatNumber(doubts)} in doubt`}</a>
      </p>
      <ul>
        {items.slice(0, 9).map(({ runId, title, since }, at) => (
          <li key={at}>
            <a href={runPath(runId)}>
              <Safe text={title || runId} />
            </a>
            <span>{formatDuration(Date.now() - since)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
