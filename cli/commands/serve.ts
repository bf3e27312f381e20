import type { Caller } from '../../access/caller.ts';
import type { Agent } from '../../agent/agent.ts';
import { AgentListeners } from '../../agent/listening/agent-listeners.ts';
import { webhook } from '../../agent/listening/webhook.ts';
import { systemHost } from '../../engine/host/host.ts';
import { createA2aApi } from '../../fronts/a2a/a2a-api.ts';
import { createAgUiApi } from '../../fronts/ag-ui/handler.ts';
import { createChatApi } from '../../fronts/ai-sdk-ui/chat/chat-handler.ts';
import { createMcpApi } from '../../fronts/mcp/mcp-api.ts';
import { stateKeyOf } from '../../fronts/mcp/state-key.ts';
import { ServedRuns, type ServedRunsOptions } from '../../fronts/served/served-runs.ts';
import { messageOf } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import type { Store } from '../../protocol/store.ts';
import { Tokens } from '../../server/access/tokens.ts';
import { createRunsApp } from '../../server/app.ts';
import { assertMayBind } from '../../server/bind-address.ts';
import {
  describeGatewayConfig,
  EMPTY_GATEWAY,
  type WebhooksConfig,
} from '../../server/gateway/config/gateway-config.ts';
import { readGatewayConfig } from '../../server/gateway/config/read-gateway-config.ts';
import { createGateway } from '../../server/gateway.ts';
import { WorkMetrics } from '../../server/metrics/work-metrics.ts';
import type { MountedApi } from '../../server/mounted-api.ts';
import type { PageAssets } from '../../server/page-assets.ts';
import { providerFetch } from '../../server/provider-fetch.ts';
import { beginWithin } from '../../server/runs/begin-run.ts';
import type { Serving } from '../../server/serve.ts';
import { nonDrivingStore } from '../../stores/non-driving-store.ts';
import { pageAssets } from '../../visualizer/page-assets.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { bareAgent, makeAgents, makeForkModels, readLaunch } from '../launch.ts';
import { readToken, readVersion, storeFile } from '../options.ts';
import { reportUncaught } from '../process-end.ts';
import { formatStore } from '../render/format.ts';
import { withStore } from '../store.ts';
import { exploreInProcess } from './explore.ts';
import { makeTest } from './export.ts';
import { listen, readFormat, ServerLog, shutDown, untilStopped } from './serving.ts';

/** How long a request waits for PostgreSQL if the process drives no runs, in ms. */
const REQUEST_PATIENCE_MS = 10_000;

/** How long the start waits for hidden MCP servers, so that the first requests have their tools, in ms. */
const HIDDEN_START_MS = 5_000;

/** SIGINT or SIGTERM hands its runs over; a second signal exits at once. */
export const serve: Action<'serve'> = async options => {
  if (options.configSchema === true) {
    process.stdout.write(`${JSON.stringify(describeGatewayConfig(), null, 2)}\n`);
    return EXIT.done;
  }
  const log = new ServerLog(readFormat(options.log));
  const file = storeFile(options.db);
  const { host, port, grace: graceMs, drive: drives } = options;
  const token = readToken(options.token);
  const gateway = options.config === undefined ? EMPTY_GATEWAY : await readGatewayConfig(options.config);
  const { callers } = new Tokens(token, gateway.tokens);
  assertMayBind(host, { hasTokens: callers.length > 0 });
  const { problem: warn } = log;
  reportUncaught({ survives: true, report: warn });
  const place = { file, warn, ...(!drives && { patienceMs: REQUEST_PATIENCE_MS }) };
  return await withStore(place, async opened => {
    const work = new WorkMetrics({ store: opened, host: systemHost });
    const store = drives ? work.store : nonDrivingStore(work.store);
    const { forkModels, modelLaunches } = await makeForkModels(options.forkModel);
    const { agents, launches } = await makeAgents(options.agent ?? [], store, forkModels);
    await store.list({ limit: 1 });
    const page = await findPage(log);
    const { model } = readLaunch(undefined);
    const { service, responses, messages, chat, agentsByRun } = createGateway({
      store,
      config: gateway,
      drives,
      fetch: providerFetch,
      ...omitUndefined({ model }),
      log: warn,
    });
    const hasToken = callers.length > 0;
    const { admission } = service;
    const fronts = serveFronts({ store, agents, launches, admission, file, hasToken, log });
    const app = createRunsApp({
      store,
      agents,
      launches,
      modelLaunches,
      address: host,
      version: readVersion(),
      admission,
      ...omitUndefined({ token, tokens: gateway.tokens, corsOrigins: gateway.cors?.origins, assets: page }),
      mounted: [messages, responses, chat, ...fronts],
      agentsByRun,
      work,
      drives,
      fallbackAgentFor: record => bareAgent(record, store),
      ...(launches.size > 0 && {
        exploreAgent: (name, given) => exploreInProcess(launches.get(name)?.module, file, given),
      }),
      exportTest: makeTest,
      log: warn,
      ...omitUndefined({ onRequest: log.reportRequest }),
    });
    await service.begin(HIDDEN_START_MS);
    const serving = await listen(app, { host, port }, log);
    if (serving === null) return EXIT.failed;
    const ended = untilStopped(log);
    const webhooks = sendWebhooks(work.store, gateway.webhooks);
    announce(log, { serving, file, agents: [...agents.values()], callers, drives });
    if (drives)
      app.pickUp().then(
        picked => picked.length > 0 && log.notice(`resuming ${picked.join(', ')}`),
        error => log.problem(`Cannot resume runs: ${messageOf(error)}`),
      );
    await ended;
    webhooks.close();
    await shutDown({ serving, store: work.store, graceMs, log, closing: [...agents.values(), service] });
    return EXIT.done;
  });
};

/** Returns the assets of the page at `/`, or `undefined` if they are unavailable; the API works without them. */
async function findPage(log: ServerLog): Promise<PageAssets | undefined> {
  try {
    return await pageAssets();
  } catch (error) {
    log.problem(`Serving without the web page, which can neither be read nor built: ${messageOf(error)}`);
    return undefined;
  }
}

type Announced = {
  serving: Serving;
  file: string;
  agents: readonly Agent[];
  callers: readonly Caller[];
  drives: boolean;
};

function announce(log: ServerLog, { serving, file, agents, callers, drives }: Announced): void {
  const lines = [`listening on ${serving.url}`, `runs     ${formatStore(file)}`];
  lines.push(
    agents.length > 0
      ? `agents   ${nameAll(agents)}`
      : 'agents   none: only requests to /v1 start and drive runs. For runs of agents, give --agent MODULE or set AGENTCHART_MODEL.',
  );
  const idle = agents.filter(({ options }) => options.model === undefined);
  if (idle.length > 0)
    lines.push(`         No model, so no new runs: ${nameAll(idle)}. Set AGENTCHART_MODEL.`);
  if (!drives) lines.push('         Runs are not driven here: start `agentchart worker` on the same runs.');
  const named = callers.map(({ name, role }) => (name === role ? name : `${name} (${role})`));
  if (named.length > 0) lines.push(`tokens   required: ${named.join(', ')}`);
  if (named.length > 0 && !callers.some(({ role }) => role === 'operator'))
    lines.push('         No token has the role operator: runs cannot be started, steered or deleted here.');
  log.notice([...lines, 'Press Ctrl-C to stop; runs can be resumed.'].join('\n'));
}

const nameAll = (agents: readonly Agent[]) => agents.map(({ name }) => name).join(', ');

type FrontsOptions = Required<Pick<ServedRunsOptions, 'store' | 'agents' | 'launches' | 'admission'>> & {
  file: string;
  hasToken: boolean;
  log: ServerLog;
};

function serveFronts({ file, log, hasToken, ...served }: FrontsOptions): MountedApi[] {
  if (served.agents.size === 0) return [];
  const { problem: report } = log;
  const agents = [...served.agents.values()];
  const begin = beginWithin(served);
  const runs = new ServedRuns({ ...served, log: report });
  return [
    createMcpApi({ runs, key: () => stateKeyOf(file, report), version: readVersion(), log: report }),
    createA2aApi({ runs, hasToken, log: report }),
    createChatApi(agents, { begin, log: report }),
    createAgUiApi(agents, { begin, log: report }),
  ];
}

/** Sends the webhooks about all runs of the store. Of several servers on a store, one sends each. */
function sendWebhooks(store: Store, webhooks: WebhooksConfig = {}): { close(): void } {
  const listeners = new AgentListeners({ name: 'serve', store }, systemHost, () => true);
  for (const config of Object.values(webhooks)) listeners.add(webhook(config));
  return listeners;
}
