import { systemHost } from '../../engine/host/host.ts';
import { EngineError } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { createRunsApp } from '../../server/app.ts';
import { assertMayBind } from '../../server/bind-address.ts';
import { readGatewayConfig } from '../../server/gateway/config/read-gateway-config.ts';
import { createGateway } from '../../server/gateway.ts';
import { WorkMetrics } from '../../server/metrics/work-metrics.ts';
import { providerFetch } from '../../server/provider-fetch.ts';
import { startWorker } from '../../server/runs/run-worker.ts';
import { nonDrivingStore } from '../../stores/non-driving-store.ts';
import type { Action, GivenTo } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { bareAgent, makeAgents, makeForkModels, readLaunch } from '../launch.ts';
import { readToken, readVersion, refuseWithoutPort, storeFile } from '../options.ts';
import { reportUncaught } from '../process-end.ts';
import { formatStore } from '../render/format.ts';
import { withStore } from '../store.ts';
import { listen, readFormat, ServerLog, shutDown, untilStopped } from './serving.ts';

/** How long the start waits for hidden MCP servers, in ms. */
const HIDDEN_START_MS = 5_000;

/** How long results are kept while PostgreSQL is away, in ms; one that was overtaken is refused. */
const DRIVER_PATIENCE_MS = 10 * 60_000;

/** SIGINT or SIGTERM hands its runs over; a second signal exits at once. */
export const driveRuns: Action<'worker'> = async (options, command) => {
  refuseWithoutPort(command);
  const log = new ServerLog(readFormat(options.log));
  const { problem } = log;
  const file = storeFile(options.db);
  const { slots, grace: graceMs } = options;
  reportUncaught({ survives: true, report: problem });
  return await withStore({ file, patienceMs: DRIVER_PATIENCE_MS, warn: problem }, async opened => {
    const metrics = new WorkMetrics({ store: opened, host: systemHost, slots });
    const { store } = metrics;
    const { forkModels } = await makeForkModels(options.forkModel);
    const { agents } = await makeAgents(options.agent ?? [], store, forkModels);
    const gateway = await makeGateway(options, store, problem);
    if (agents.size === 0 && gateway === undefined)
      throw new EngineError('model-missing', 'There is no agent to drive runs of. Give --agent MODULE.');
    await store.list({ limit: 1 });
    await gateway?.service.begin(HIDDEN_START_MS);
    const probes = await serveProbes(options, { store, metrics, log });
    if (probes === null) return EXIT.failed;
    const { agentsByRun } = gateway ?? {};
    const names = [...agents.keys(), ...(gateway === undefined ? [] : ['the requests to /v1'])];
    const ended = untilStopped(log);
    log.notice(
      [
        `driving  ${names.join(', ')}`,
        `runs     ${formatStore(file)}`,
        `slots    ${slots}`,
        ...(probes === undefined ? [] : [`probes   ${probes.url}`]),
        'Press Ctrl-C to stop; runs are handed over.',
      ].join('\n'),
    );
    const working = startWorker({
      store,
      agents,
      slots,
      host: systemHost,
      log: problem,
      ...omitUndefined({ agentsByRun }),
    });
    metrics.countWith(working);
    await ended;
    const serving = {
      drain() {
        probes?.drain();
        void working.stop(graceMs);
      },
      close: async () => await probes?.close(),
    };
    const closing = [...agents.values(), ...(gateway === undefined ? [] : [gateway.service])];
    await shutDown({ store, serving, graceMs, log, closing });
    return EXIT.done;
  });
};

async function makeGateway({ config }: GivenTo<'worker'>, store: Store, log: (line: string) => void) {
  if (config === undefined) return undefined;
  const { model } = readLaunch(undefined);
  return createGateway({
    store,
    config: await readGatewayConfig(config),
    fetch: providerFetch,
    log,
    ...omitUndefined({ model }),
  });
}

type Probed = { store: Store; metrics: WorkMetrics; log: ServerLog };

/** Serves `/healthz`, `/readyz`, `/metrics` and the runs, if there is a port; `null` if it cannot listen. */
async function serveProbes(options: GivenTo<'worker'>, { store, metrics, log }: Probed) {
  if (options.port === undefined) return undefined;
  const token = readToken(options.token);
  assertMayBind(options.host, { hasTokens: token !== undefined });
  const app = createRunsApp({
    store: nonDrivingStore(store),
    agents: new Map(),
    drives: false,
    fallbackAgentFor: record => bareAgent(record, store),
    work: metrics,
    address: options.host,
    version: readVersion(),
    log: log.problem,
    ...omitUndefined({ token, onRequest: log.reportRequest }),
  });
  return await listen(app, { host: options.host, port: options.port }, log);
}
