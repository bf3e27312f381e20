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
    h('main', { class: 'missing' }, h('h1', {}, 'Nothing here'), h('a', { href: '/' }, 'All runs')),
  );
