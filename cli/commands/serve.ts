import { resolve } from 'node:path';
import { systemHost } from '../../engine/driver/host.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import type { Store } from '../../protocol/store.ts';
import { createRunsApp } from '../../server/app.ts';
import { assertMayBind } from '../../server/bind-address.ts';
import type { PageAssets } from '../../server/page-assets.ts';
import { EMPTY_GATEWAY } from '../../server/responses/gateway/gateway-config.ts';
import { readGatewayConfig } from '../../server/responses/gateway/read-gateway-config.ts';
import { createResponsesApi } from '../../server/responses/responses-api.ts';
import { RESPONSES } from '../../server/responses/wire/response-spec.ts';
import { type Serving, serveRuns } from '../../server/serve.ts';
import type { Agent } from '../../tools/agent/agent.ts';
import { pageAssets } from '../../visualizer/page-assets.ts';
import { nameUncaught } from '../detect-early-exit.ts';
import { EXIT } from '../exit-codes.ts';
import { watchInterrupts } from '../interrupts.ts';
import { bareAgent, type Launch, makeAgent, readLaunch } from '../launch.ts';
import { storeFile, withStore } from '../open-store.ts';
import { Output } from '../render/output.ts';

export type ServeOptions = {
  db?: string;
  agent?: string[];
  config?: string;
  host: string;
  port: string;
  token?: string;
  version: string;
};

/** How long tool servers and tools that do not listen may keep an ending process, in ms. */
const LEAVING_MS = 2_000;

/**
 * Serves the runs API until SIGINT or SIGTERM. Runs that are being driven then are left as they are, and
 * the next process goes on with them. A second signal leaves at once.
 */
export async function serve(options: ServeOptions): Promise<number> {
  const output = new Output({ json: false });
  const file = storeFile(options.db);
  const port = readPort(options.port);
  const token = readToken(options.token);
  assertMayBind(options.host, token);
  nameUncaught({ goesOn: true });
  const gateway = options.config === undefined ? EMPTY_GATEWAY : await readGatewayConfig(options.config);
  return await withStore(file, async store => {
    const { agents, launches } = await makeAgents(options.agent ?? [], store);
    await store.list({ limit: 1 });
    const page = await findPage(output);
    const { model } = readLaunch(undefined);
    const responses = createResponsesApi({
      ...{ store, host: systemHost, gateway },
      ...(model === undefined ? {} : { model }),
      log: line => output.problem(line),
    });
    const app = createRunsApp({
      ...{ store, agents, launches, host: options.host, version: options.version },
      ...(token === undefined ? {} : { token }),
      ...(page === undefined ? {} : { assets: page }),
      mounted: [responses],
      agentsByRun: new Map([[RESPONSES, record => responses.service.agentFor(record)]]),
      fallbackAgentFor: record => bareAgent(record, store),
      log: line => output.problem(line),
    });
    const serving = await listen(() => serveRuns(app, { host: options.host, port }), options, output);
    if (serving === null) return EXIT.failed;
    const ended = untilInterrupted(output);
    announce(output, { serving, file, agents: [...agents.keys()], hasToken: token !== undefined });
    app.pickUp().then(
      picked => picked.length > 0 && output.problem(`going on with ${picked.join(', ')}`),
      error => output.problem(`Runs are not picked up: ${messageOf(error)}`),
    );
    await ended;
    await shutDown({ serving, store, closing: [...agents.values(), responses.service] });
    return EXIT.done;
  });
}

async function makeAgents(modules: readonly string[], store: Store) {
  const agents = new Map<string, Agent>();
  const launches = new Map<string, Launch>();
  const said = modules.length === 0 ? [readLaunch(undefined)] : modules.map(readLaunch);
  for (const launch of said) {
    if (launch.module === undefined && launch.model === undefined) continue;
    const agent = await makeAgent(launch, store);
    const other = launches.get(agent.name);
    if (other !== undefined) {
      throw new EngineError(
        'agent-module-invalid',
        `Two agents are named "${agent.name}": ${other.module} and ${launch.module}. Runs find their agent by its name: give one another.`,
      );
    }
    agents.set(agent.name, agent);
    launches.set(agent.name, launch);
  }
  return { agents, launches };
}

/** The page at `/`; without it the API is served all the same. */
async function findPage(output: Output): Promise<PageAssets | undefined> {
  try {
    return await pageAssets();
  } catch (error) {
    output.problem(`There is no page: it can neither be read nor built. ${messageOf(error)}`);
    return undefined;
  }
}

async function listen(
  begin: () => Promise<Serving>,
  { host, port }: ServeOptions,
  output: Output,
): Promise<Serving | null> {
  try {
    return await begin();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    const advice =
      code === 'EADDRINUSE'
        ? 'Another program listens there, perhaps another agentchart. Stop it, or take another port: --port 0 takes a free one.'
        : `${messageOf(error)}. Choose another --host or --port.`;
    output.problem(`Cannot listen on ${host} port ${port}. ${advice}`);
    return null;
  }
}

function announce(
  output: Output,
  {
    serving,
    file,
    agents,
    hasToken,
  }: { serving: Serving; file: string; agents: readonly string[]; hasToken: boolean },
): void {
  const served =
    agents.length > 0
      ? `agents   ${agents.join(', ')}`
      : 'agents   none: runs are shown, and none is begun or driven. Name one with --agent MODULE, or set AGENTCHART_MODEL.';
  output.problem(
    [
      `listening on ${serving.url}`,
      `runs     ${resolve(file)}`,
      served,
      ...(hasToken ? ['token    asked for'] : []),
      'Ctrl-C stops it; runs stay resumable.',
    ].join('\n'),
  );
}

function untilInterrupted(output: Output): Promise<void> {
  return new Promise<void>(first => {
    watchInterrupts({ first: () => first(), again: () => process.exit(EXIT.left) });
  }).then(() => output.problem('Stopping; the runs stay resumable. Ctrl-C again leaves at once.'));
}

/**
 * The store is closed before the tool servers end: what their end does to a call that runs is not taken
 * for its result. A dead process is replaced at once as a run's driver, so that no lease is given back.
 */
async function shutDown({
  serving,
  store,
  closing,
}: {
  serving: Serving;
  store: Store;
  /** What has started tool servers. */
  closing: readonly { close(): Promise<void> }[];
}): Promise<void> {
  await serving.close();
  await store.close();
  setTimeout(() => process.exit(EXIT.done), LEAVING_MS).unref();
  await Promise.allSettled(closing.map(each => each.close()));
}

function readPort(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= 65_535) return port;
  throw new EngineError(
    'input-invalid',
    `--port takes a number from 0 to 65535, and "${text}" is none. 0 takes a free port.`,
  );
}

/** What `--token` says, else `AGENTCHART_TOKEN`; an empty variable is no token. */
function readToken(said: string | undefined): string | undefined {
  if (said === '')
    throw new EngineError('input-invalid', '--token is empty. Give a token, or leave the option out.');
  return said ?? (process.env.AGENTCHART_TOKEN || undefined);
}
