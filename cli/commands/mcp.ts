import { Console } from 'node:console';
import { systemHost } from '../../engine/host/host.ts';
import { createMcpApi } from '../../fronts/mcp/mcp-api.ts';
import type { McpFrontOptions } from '../../fronts/mcp/mcp-front.ts';
import { type McpServing, serveMcpStdio } from '../../fronts/mcp/mcp-front.ts';
import { stateKeyOf } from '../../fronts/mcp/state-key.ts';
import { ServedRuns } from '../../fronts/served/served-runs.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { omitUndefined } from '../../protocol/json.ts';
import { Admission } from '../../server/access/admission.ts';
import { createRunsApp } from '../../server/app.ts';
import { assertMayBind } from '../../server/bind-address.ts';
import type { Action, GivenTo } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { makeAgents } from '../launch.ts';
import { readToken, readVersion, refuseWithoutPort, storeFile } from '../options.ts';
import { reportUncaught, untilInterrupted } from '../process-end.ts';
import { withStore } from '../store.ts';
import { listen, ServerLog, shutDown } from './serving.ts';

const GRACE_MS = 2_000;

/** On stdin and stdout until stdin ends or a signal, or with `--port` over HTTP. Runs stay resumable. */
export const mcpCommand: Action<'mcp'> = async (options, command) => {
  refuseWithoutPort(command);
  const log = new ServerLog('text');
  const file = storeFile(options.db);
  // stdout carries the protocol: output of agent modules and tools goes to stderr.
  globalThis.console = new Console(process.stderr);
  const { problem: report } = log;
  reportUncaught({ survives: true, report });
  return await withStore(file, async store => {
    const { agents, launches } = await makeAgents(options.agent ?? [], store);
    if (agents.size === 0)
      throw new EngineError(
        'model-missing',
        'There is no agent to offer. Give --agent MODULE, or set AGENTCHART_MODEL.',
      );
    const runs = new ServedRuns({
      store,
      agents,
      launches,
      admission: new Admission({ host: systemHost }),
      log: report,
    });
    await store.list({ limit: 1 });
    const front = { runs, key: () => stateKeyOf(file, report), version: readVersion(), log: report };
    const serving = await (options.port === undefined
      ? serveMcpStdio(front)
      : serveHttp(front, { ...options, port: options.port }, log));
    if (serving === null) return EXIT.failed;
    const interrupted = untilInterrupted();
    serving.begun.then(() => runs.pickUp()).catch(error => report(`Cannot resume runs: ${messageOf(error)}`));
    await Promise.race([serving.ended, interrupted]);
    runs.close();
    await shutDown({ store, serving, graceMs: GRACE_MS, log, closing: [...agents.values()] });
    return EXIT.done;
  });
};

async function serveHttp(
  front: McpFrontOptions,
  { port, host, ...options }: GivenTo<'mcp'> & { port: number },
  log: ServerLog,
): Promise<McpServing | null> {
  const token = readToken(options.token);
  assertMayBind(host, { hasTokens: token !== undefined });
  const { store, agents } = front.runs;
  const mounted = [createMcpApi(front)];
  const app = createRunsApp({
    store,
    agents,
    address: host,
    version: readVersion(),
    mounted,
    log: front.log,
    ...omitUndefined({ token }),
  });
  const serving = await listen(app, { host, port }, log);
  if (serving === null) return null;
  log.notice(`listening on ${serving.url}/mcp`);
  return { begun: Promise.resolve(), ended: new Promise(() => {}), ...serving };
}
