import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { closePages, type Look, sharedChromium, WatchedPage } from './browser.ts';
import { type DemoAgents, makeDemoAgents } from './demo-agents.ts';
import { ServedRuns } from './served-runs.ts';

/** A server of the demo agents for each test of a `describe`, and pages of it that are closed after the test. */
export function serveDemoPages() {
  const open: WatchedPage[] = [];
  const state: { browser?: Browser; demo?: DemoAgents; api?: ServedRuns } = {};
  beforeAll(async () => {
    state.browser = await sharedChromium();
  });
  afterAll(async () => {
    if (state.browser !== undefined) await closePages(state.browser);
  });
  beforeEach(async () => {
    state.demo = makeDemoAgents();
    state.api = await ServedRuns.listen(state.demo.agents);
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map(page => page.close()));
    await state.api?.close();
  });
  const served = () => {
    const { browser, demo, api } = state;
    if (browser === undefined || demo === undefined || api === undefined) throw new Error('no test runs');
    return { browser, demo, api };
  };
  return {
    get store() {
      return served().demo.store;
    },
    get url() {
      return served().api.url;
    },
    async visit(path: string, look?: Look): Promise<WatchedPage> {
      const { browser, api } = served();
      const page = await WatchedPage.open(browser, `${api.url}${path}`, look);
      open.push(page);
      return page;
    },
    start: (agent: string, input: string) => served().api.start(agent, input),
    async startAtRest(agent: string, input: string) {
      const run = await served().api.start(agent, input);
      await run.settled();
      return run;
    },
  };
}
