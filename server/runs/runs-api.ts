// server/runs: the runs API. `run-registry.ts` holds runs open, `take-runs.ts` finds those to drive,
// `run-worker.ts` is both for a process; the folders hold the routes.

import type { Host } from '../../engine/driver/host.ts';
import type { Store } from '../../protocol/store.ts';
import type { Admission } from '../access/admission.ts';
import type { WorkCounter } from '../metrics/work-metrics.ts';
import { answerRunsError, type MountedApi } from '../mounted-api.ts';
import type { PageAssets } from '../page-assets.ts';
import { BODY_LIMITS, type BodyLimits } from '../read-body.ts';
import { RepeatedCommands } from './commands/repeated-commands.ts';
import { Explorations, type ExploreAgent } from './exploring/explore-route.ts';
import { Inbox } from './inbox/read-inbox.ts';
import { STREAM_BOUNDS, type StreamBounds } from './live/event-stream.ts';
import { RunChanges } from './live/run-changes.ts';
import { describeApi } from './openapi.ts';
import { findRecord } from './run-registry.ts';
import { addRunRoutes } from './run-routes.ts';
import { createRunWorker } from './run-worker.ts';
import type { ServedAgentsOptions } from './served-agents.ts';
import { addShareRoutes, type ExportTest } from './sharing/share-routes.ts';

export type RunsApiOptions = ServedAgentsOptions & {
  store: Store;
  admission: Admission;
  /** Whether callers need credentials, for `/openapi.json`. */
  hasToken: boolean;
  version?: string;
  /** The page's files, for runs that are shared as one HTML file. */
  assets?: PageAssets;
  /** Makes a test of a run, for `GET /runs/ID/export?as=test`. Default: such exports are refused. */
  exportTest?: ExportTest;
  /** Explores an agent, for `GET /agents/NAME/explore` and `GET /runs/ID/explore`. Default: explorations are refused. */
  exploreAgent?: ExploreAgent;
  bodyLimits?: Partial<BodyLimits>;
  streamBounds?: Partial<StreamBounds>;
  clock: Host;
  log(line: string): void;
  /** Whether runs are driven in this process. Default true; else `store` must grant no leases. */
  drives?: boolean;
};

export type RunsApi = MountedApi &
  WorkCounter & {
    /**
     * Resumes runs whose driver is gone, now and periodically until `close`. Returns the ids of the runs that are resumed
     * now.
     */
    pickUp(): Promise<string[]>;
    /** The number of open runs: watched, driven, or resting with a deadline. */
    countHeld(): number;
  };

/**
 * Creates the runs API: `/runs`, `/agents` and `/openapi.json`. Requests never drive runs themselves: `RunRegistry`
 * drives open runs in the background, and `RunTaker` finds runs without a driver.
 */
export function createRunsApi(options: RunsApiOptions): RunsApi {
  const { store, clock, log, admission, hasToken, version = '0.0.0' } = options;
  const { agents, held, taker, strandings } = createRunWorker({ ...options, host: clock });
  const inbox = new Inbox(store);
  const changes = new RunChanges({ store, host: clock, inbox, log });
  const explorations = new Explorations(options.exploreAgent, log);
  return {
    prefix: '/runs',
    paths: ['/runs', '/agents', '/inbox', '/events', '/me', '/openapi.json'],
    area: 'runs',
    add(app) {
      app.get('/openapi.json', c => c.json(describeApi({ version, hasToken })));
      app.get('/agents', c => c.json({ agents: agents.list() }));
      app.get('/agents/:name', c => c.json(agents.describe(c.req.param('name'))));
      app.get('/agents/:name/explore', c => explorations.ofAgent(c, agents.choose(c.req.param('name')).name));
      app.get('/runs/:id/explore', async c => {
        const record = await findRecord(store, c.req.param('id'), c.get('caller'));
        return explorations.ofRun(c, agents.nameServing(record.agent), record);
      });
      app.get('/me', c => {
        const { name, role, labels } = c.get('caller');
        return c.json({ name, role, labels });
      });
      addShareRoutes(app, { store, clock, log, assets: options.assets, exportTest: options.exportTest });
      addRunRoutes(app, {
        store,
        clock,
        agents,
        held,
        strandings,
        inbox,
        requests: new RepeatedCommands(store),
        changes,
        admission,
        log,
        bodyLimits: { ...BODY_LIMITS, ...options.bodyLimits },
        streamBounds: { ...STREAM_BOUNDS, ...options.streamBounds },
      });
    },
    answerError: (c, error) => answerRunsError(c, error, log),
    pickUp: () => taker.start(),
    countWork: limit => taker.countWork(limit),
    countLeft: limit => taker.countLeft(limit),
    countHeld: () => held.size,
    close() {
      taker.stop();
      changes.close();
      explorations.close();
      held.close();
    },
  };
}
