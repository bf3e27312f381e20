/**
 * The entry of the web page, bundled into one script by `build-page.ts`.
 *
 * `app/` chooses the view by the address and holds what all views share; `data/` reads runs from a server or from this
 * document and sends commands; `model/` folds a journal with the chart's own code and interprets it; `ui/` has the
 * components that views share; `run/` and the other folders are views. Every text from outside goes through
 * `showSafe` and becomes a text node. CONTRIBUTING.md says how a view is added.
 */
import { signal } from '@preact/signals';
import { render } from 'preact';
import { watchKeys } from './app/keyboard.ts';
import { route, watchLinks } from './app/router.ts';
import { linkedToken, Shell, SignIn } from './app/shell.tsx';
import { drawView } from './app/views.tsx';
import { readCaller } from './data/caller.ts';
import { embeddedSource } from './data/embedded-source.ts';
import { httpSource } from './data/http-source.ts';
import { onUnauthorized } from './data/request.ts';
import { watchServer } from './data/server-watch.ts';

const locked = signal(false);
onUnauthorized(() => (locked.value = true));
const embedded = embeddedSource();
const start = route.peek();
// A link with a token signs the page in. The page first asks whether it has a session already.
const isLinked = embedded === null && linkedToken !== '';
const source = embedded ?? httpSource(start.view === 'run' && !isLinked ? start.runId : undefined);
watchKeys();
if (embedded === null) {
  watchLinks();
  watchServer();
  // What the view asks for goes first.
  if (!isLinked) setTimeout(() => void readCaller());
}

function Page() {
  if (locked.value) return <SignIn />;
  const shown = embedded === null ? route.value : ({ view: 'run', runId: embedded.runId } as const);
  return <Shell source={source}>{drawView(shown, source)}</Shell>;
}

function draw(): void {
  const place = document.querySelector('#page') ?? document.body;
  place.replaceChildren();
  render(<Page />, place);
}

// The browser paints the navigation of the HTML first, unless the tab is hidden.
if (isLinked) void readCaller().then(draw);
else if (embedded !== null || document.hidden) draw();
else requestAnimationFrame(() => setTimeout(draw));
