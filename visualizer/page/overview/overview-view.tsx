// visualizer/page/overview: what needs someone, and what the runs did and used.

import { useShortcuts } from '../app/keyboard.ts';
import { navigate, setQuery, useTitle } from '../app/router.ts';
import { requestServer } from '../data/request.ts';
import { useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { Button } from '../ui/button.tsx';
import { NewRunButton } from '../views/new-run-button.tsx';
import { Needs } from './needs.tsx';
import { RANGES, type Range, UsageSection } from './usage.tsx';

type OverviewProps = { source: PageSource; query: URLSearchParams };

export function OverviewView({ source, query }: OverviewProps) {
  useTitle('Overview');
  useShortcuts('Overview', [{ keys: ['/'], does: 'Search all runs', run: () => navigate('/runs?search') }]);
  const { answer, again } = useRead(() => requestServer<{ runs: unknown[] }>('/runs?limit=1'), []);
  useNews(source, ['ready', 'summary'], async () => {
    if (answer?.runs.length === 0) await again();
  });
  const range = RANGES.find(({ name }) => name === query.get('range')) ?? RANGES[0];
  return (
    <main class="overview">
      <header class="list-head">
        <h1 tabIndex={-1}>Overview</h1>
        <span class="space" />
        <NewRunButton agent="" />
      </header>
      {answer?.runs.length === 0 ? (
        <Welcome />
      ) : (
        <>
          <Needs source={source} hours={range.hours} />
          <RangeButtons shown={range} />
          <UsageSection source={source} range={range} query={query} />
        </>
      )}
    </main>
  );
}

function RangeButtons({ shown }: { shown: Range }) {
  return (
    <fieldset class="chips" aria-label="Created in">
      {RANGES.map(range => (
        <Button
          key={range.name}
          label={range.title}
          aria-pressed={range === shown}
          onClick={() => setQuery({ range: range === RANGES[0] ? null : range.name })}
        />
      ))}
    </fieldset>
  );
}

/** What to do first, while there is nothing to show. */
function Welcome() {
  return (
    <section class="need welcome" aria-label="First steps">
      <h2>Nothing has run yet</h2>
      <p>Start a run with New run, or on the command line:</p>
      <pre>agentchart run --agent agent.ts "Refund order A-1001."</pre>
      <p>
        <a href="/agents">The agents</a> of this server say what they can do; the guide is in the package, in{' '}
        <code>docs/guide</code>.
      </p>
    </section>
  );
}
