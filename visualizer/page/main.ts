/**
 * The entry of the web page, bundled into one script by `build-page.ts`. It shows the list of runs at `/` and one run
 * at `/runs/ID`.
 *
 * A run's page has one `RunModel`. `followRun` fills it from the event stream and the runs API; `JournalFold` folds the
 * entries with the chart's own code; the panes (`panes/`) draw the model, at most once per frame. Calls (`calls/`) and
 * buttons (`commands/`) submit commands through `runs-api.ts`. Every text from outside goes through `showSafely`.
 */
import { showSignIn } from './commands/sign-in.ts';
import { h } from './render/element.ts';
import { showRunPage } from './run-page.ts';
import { onUnauthorized } from './runs-api.ts';
import { showRunsPage } from './runs-page.ts';

const page = document.querySelector('#page') ?? document.body;
onUnauthorized(() => showSignIn(page));

const [, folder, runId] = location.pathname.split('/');
if (folder === 'runs' && runId !== undefined && runId !== '') showRunPage(page, decodeURIComponent(runId));
else if (location.pathname === '/') showRunsPage(page);
else
  page.replaceChildren(
    h('main', { class: 'missing' }, h('h1', {}, 'Page not found'), h('a', { href: '/' }, 'All runs')),
  );
