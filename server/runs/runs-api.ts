// server/runs: the runs API. `run-registry.ts` holds runs open, `take-runs.ts` finds those to drive,
// `run-worker.ts` is both for a process; the folders hold the routes.

import { type Host, systemHost } from '../../engine/host/host.ts';
import { messageOf } from '../../protocol/error.ts';
import type { Store } from '../../protocol/store.ts';
import { drivesRuns } from '../../stores/non-driving-store.ts';
import { Admission } from '../access/admission.ts';
import type { WorkCounter } from '../metrics/work-metrics.ts';
import { answerRunsError, type MountedApi } from '../mounted-api.ts';
import { describeApi } from '../openapi.ts';
import type { PageAssets } from '../page-assets.ts';
import { BODY_LIMITS, type BodyLimits } from '../read-body.ts';
import { mountRoutes } from '../route.ts';
import { OPEN_ROUTES, RUNS_ROUTES, SERVER_ROUTES } from '../route-table.ts';
import { storyHandlers } from '../story/story-routes.ts';
import { STORY_ROUTES } from '../story/story-table.ts';
import { RepeatedCommands } from './commands/repeated-commands.ts';
import { Explorations, type ExploreAgent } from './explore-route.ts';
import { Inbox } from './inbox/read-inbox.ts';
import { STREAM_BOUNDS, type StreamBounds } from './live/event-stream.ts';
import { RunChanges } from './live/run-changes.ts';
import { Regressions } from './regressions/read-regressions.ts';
import type { ExportTest, RouteParts } from './route-parts.ts';
import { runsHandlers } from './run-routes.ts';
import { createRunWorker } from './run-worker.ts';
import type { ServedAgentsOptions } from './served-agents.ts';
import { SignIns } from './sign-ins.ts';

export type RunsApiOptions = ServedAgentsOptions & {
  store: Store;
  admission?: Admission;
  hasToken?: boolean;
  version?: string;
  assets?: PageAssets;
  exportTest?: ExportTest;
  exploreAgent?: ExploreAgent;
  bodyLimits?: Partial<BodyLimits>;
  streamBounds?: Partial<StreamBounds>;
  host?: Host;
  log(line: string): void;
  /** Whether runs are driven in this process. Default true; else `store` must grant no leases. */
  drives?: boolean;
};

export type RunsApi = MountedApi &
  WorkCounter & {
    addStories: MountedApi['add'];
    /** Resumes runs whose driver is gone, now and periodically until `close`. Returns the ids of those resumed now. */
    pickUp(): Promise<string[]>;
    /** As `pickUp`, in the background. */
    recover(): void;
    countHeld(): number;
    /** Takes the answer with which a browser returned from an authorization server; see `SignIns`. */
    completeSignIn: SignIns['complete'];
  };

/** Requests never drive runs themselves: `RunRegistry` drives open runs, and `RunTaker` finds runs without a driver. */
export function createRunsApi(options: RunsApiOptions): RunsApi {
  const { store, host = systemHost, log, hasToken = false, version = '0.0.0' } = options;
  const { drives = drivesRuns(store) } = options;
  const { admission = new Admission({ host }) } = options;
  const { agents, held, taker, strandings } = createRunWorker({ ...options, host, drives });
  const inbox = new Inbox(store);
  const changes = new RunChanges({ store, host, inbox, log });
  const signIns = new SignIns({ agents, held, log });
  const explorations = new Explorations(options.exploreAgent, log);
  const routes: RouteParts = {
    store,
    host,
    agents,
    held,
    strandings,
    inbox,
    regressions: new Regressions(store),
    requests: new RepeatedCommands(store),
    changes,
    explorations,
    signIns,
    admission,
    log,
    assets: options.assets,
    exportTest: options.exportTest,
    describe: () => describeApi({ ...OPEN_ROUTES, ...SERVER_ROUTES, ...RUNS_ROUTES }, { version, hasToken }),
    streamBounds: { ...STREAM_BOUNDS, ...options.streamBounds },
  };
  const limits = { ...BODY_LIMITS, ...options.bodyLimits };
  const stories = storyHandlers(routes);
  return {
    prefix: '/runs',
    paths: [
      '/runs',
      '/agents',
      '/inbox',
      '/totals',
      '/folded',
      '/threads',
      '/notes',
      '/regressions',
      '/events',
      '/me',
      '/openapi.json',
      '/story',
    ],
    area: 'runs',
    routes: RUNS_ROUTES,
    add: app => mountRoutes(app, limits, RUNS_ROUTES, { ...runsHandlers(routes), ...stories }),
    addStories: app => mountRoutes(app, limits, STORY_ROUTES, stories),
    answerError: (c, error) => answerRunsError(c, error, log),
    pickUp: () => taker.start(),
    recover() {
      if (drives) taker.start().catch(error => log(`Cannot resume runs: ${messageOf(error)}`));
    },
    countWork: limit => taker.countWork(limit),
    countLeft: limit => taker.countLeft(limit),
    countHeld: () => held.size,
    completeSignIn: answer => signIns.complete(answer),
    close() {
      void taker.stop();
      changes.close();
      explorations.close();
      held.close();
    },
  };
}
