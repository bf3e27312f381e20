import type { ComponentChildren } from 'preact';
import { NOTES_ID } from '../../../protocol/notes.ts';
import { threadPath } from '../data/request.ts';
import type { PageSource } from '../data/source.ts';
import { OverviewView } from '../overview/overview-view.tsx';
import { RunsView } from '../views/runs-view.tsx';
import { later } from './later.tsx';
import { playedExample } from './played.ts';
import type { PageRoute } from './router.ts';

/** What the list and the overview do not need is in files of its own. */
const RunView = later(async () => (await import('../run/run-view.tsx')).RunPane);
const InboxView = later(async () => (await import('../inbox/inbox-view.tsx')).InboxView);
const NotesView = later(async () => (await import('./more-parts.ts')).NotesView);
const ExampleView = later(async () => (await import('./more-parts.ts')).ExampleView);
const SessionView = later(async () => (await import('./more-parts.ts')).SessionView);
const ThreadView = later(async () => (await import('./more-parts.ts')).ThreadView);
const CompareView = later(async () => (await import('./more-parts.ts')).CompareView);
const RegressionsView = later(async () => (await import('./more-parts.ts')).RegressionsView);
const AgentsView = later(async () => (await import('./more-parts.ts')).AgentsView);

/** Draws the view of an address. A new view needs a case here and its own folder. */
export function drawView(route: PageRoute, source: PageSource): ComponentChildren {
  const example = playedExample();
  if (example !== null) return <ExampleView example={example} />;
  switch (route.view) {
    case 'overview':
      return <OverviewView source={source} query={route.query} />;
    case 'runs':
      return <RunsView source={source} query={route.query} />;
    case 'run': {
      const View = route.runId.startsWith(NOTES_ID) ? NotesView : RunView;
      return <View key={route.runId} source={source} runId={route.runId} />;
    }
    case 'session':
      return <SessionView key={route.id} source={source} id={route.id} />;
    case 'thread': {
      const path = threadPath(route.id, route.query.getAll('label'));
      return <ThreadView key={path} source={source} path={path} id={route.id} />;
    }
    case 'inbox':
      return <InboxView source={source} shown={route.shown} query={route.query} />;
    case 'compare':
      return <CompareView key={`${route.left}..${route.right}`} {...route} source={source} />;
    case 'regressions':
      return <RegressionsView source={source} query={route.query} />;
    case 'agents':
      return <AgentsView name={route.name} />;
    default:
      return (
        <main class="missing">
          <h1>Page not found</h1>
          <a href="/runs">All runs</a>
        </main>
      );
  }
}
