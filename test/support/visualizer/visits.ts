import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import type { Agent, Run } from '../../../agent/index.ts';
import { closePages, type Look, sharedChromium, WatchedPage } from './browser.ts';
import { type ServedOptions, ServedRuns } from './served-runs.ts';

type Agents = readonly Agent[];

export type Desk = ReturnType<typeof servePages>;

/**
 * Serves agents to the tests of a `describe`, or those that a function makes anew for each test. Pages are closed after the
 * test that has opened them.
 */
export function servePages(agents: Agents | (() => Agents | Promise<Agents>), options: ServedOptions = {}) {
  const open: WatchedPage[] = [];
  let browser: Browser;
  let api: ServedRuns;
  const serve = async (served: Agents, other = options): Promise<void> => {
    api = await ServedRuns.listen(served, other);
  };
  const stop = (): Promise<void> => api.close();
  const visit = async (path: string, look?: Look): Promise<WatchedPage> => {
    const watched = await WatchedPage.open(browser, `${api.url}${path}`, look);
    open.push(watched);
    return watched;
  };

  if (typeof agents === 'function') {
    beforeEach(async () => serve(await agents()));
    afterEach(stop);
  } else {
    beforeAll(() => serve(agents));
    afterAll(stop);
  }
  beforeAll(async () => {
    browser = await sharedChromium();
  });
  // What runs afterwards runs from the last to the first: pages are closed before their server.
  afterAll(() => closePages(browser));
  afterEach(async () => {
    await Promise.all(open.splice(0).map(page => page.close()));
  });

  return {
    get browser() {
      return browser;
    },
    get url() {
      return api.url;
    },
    get port() {
      return api.port;
    },
    /** The problems of the pages that the test has opened. */
    get problems() {
      return open.flatMap(({ problems }) => problems);
    },
    /** Ends the server, for another in its place. */
    stop,
    serve,
    visit,
    async visitWith(token: string, path: string, look?: Look): Promise<WatchedPage> {
      const watched = await visit(path, look);
      await watched.page.getByLabel('Token').fill(token);
      await watched.page.getByRole('button', { name: 'Sign in' }).click();
      return watched;
    },
    start: (agent: string, input: string): Promise<Run> => api.start(agent, input),
    async startAtRest(agent: string, input: string): Promise<Run> {
      const run = await api.start(agent, input);
      await run.settled();
      return run;
    },
  };
}
