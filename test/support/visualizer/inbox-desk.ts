import { afterEach, expect } from 'vitest';
import { memory, type Run } from '../../../agent/index.ts';
import type { Look } from './browser.ts';
import { makeInboxAgents } from './inbox-agents.ts';
import { servePages } from './visits.ts';

/**
 * Runs that wait, and the inbox of a server that has them, for the tests of a `describe`. Their runs end with them, and
 * their pages have only problems that are `expected`; an item may be decided before it is read.
 */
export function serveInbox({ expected = / 404 .*\/inbox\// } = {}) {
  const store = memory();
  const agents = makeInboxAgents(store);
  const desk = servePages(Object.values(agents));
  const runs: Run[] = [];
  afterEach(async () => {
    expect(desk.problems.filter(problem => !expected.test(problem))).toEqual([]);
    await Promise.all(runs.splice(0).map(run => run.cancel()));
  });
  return {
    store,
    /** Starts a run that waits then. */
    async start(name: string, title: string, labels: Readonly<Record<string, string>> = {}): Promise<Run> {
      const agent = agents[name];
      if (agent === undefined) throw new Error(`There is no agent ${name}.`);
      const run = await agent.start(title, { labels, by: 'Grace' });
      runs.push(run);
      await run.settled();
      return run;
    },
    async visit(path = '/inbox', look?: Look) {
      const watched = await desk.visit(path, look);
      const { page } = watched;
      return { page, watched, rows: page.locator('.inbox-row') };
    },
    /** What was decided in a run. */
    async decisions(run: Run): Promise<object[]> {
      return (await store.read(run.id)).flatMap(({ event }) =>
        event.type === 'approval.decided' ? [{ callId: event.callId, ...event.decision }] : [],
      );
    },
  };
}
