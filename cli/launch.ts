import { resolve } from 'node:path';
import { type Agent, createAgent } from '../agent/agent.ts';
import type { AgentOptions } from '../agent/agent-options.ts';
import { moveListeners } from '../agent/listening/agent-listeners.ts';
import { namesOf } from '../agent/sub-agents.ts';
import { readStart } from '../engine/journal/read-journal.ts';
import { checkRun } from '../engine/migrations/migrate-run.ts';
import type { VersionReport } from '../engine/versions/compare-versions.ts';
import type { ModelAdapter } from '../protocol/adapter.ts';
import { EngineError } from '../protocol/error.ts';
import { isJsonObject, type JsonValue, omitUndefined } from '../protocol/json.ts';
import type { RunRecord, Store } from '../protocol/store.ts';
import { nonDrivingStore } from '../stores/non-driving-store.ts';
import { loadAgent } from './load-agent.ts';
import { formatPath } from './render/format.ts';
import type { Output } from './render/output.ts';

/** How to create the agent of a run again. In `run.started`, so that later commands need no options. */
export type CommandLaunch = { module?: string; model?: string; request?: JsonValue };

/** Returns the launch that `--agent` (`module`) and `AGENTCHART_MODEL` ask for, with absolute file paths. */
export function readLaunch(module: string | undefined): CommandLaunch {
  const model = process.env.AGENTCHART_MODEL?.trim() ?? '';
  return omitUndefined({
    module: module === undefined ? undefined : resolve(module),
    model: model === '' ? undefined : absoluteModel(model),
  });
}

/** Returns the launch of the run, or of that at its top; empty if no command started it. */
export async function recallLaunch(store: Store, runId: string): Promise<CommandLaunch> {
  const start = await readStart(store, await findTop(store, runId));
  return isJsonObject(start?.launch) ? start.launch : {};
}

/** Returns the id of the run at the top of a sub-agent's run; for any other run, its own id. */
export async function findTop(store: Store, runId: string): Promise<string> {
  const { parent } = (await readStart(store, runId)) ?? {};
  const above = isJsonObject(parent) ? parent.runId : undefined;
  if (typeof above !== 'string' || (await store.get(above)) === undefined) return runId;
  return await findTop(store, above);
}

/** Creates the agent of a launch; without a module, an assistant without tools. `forkModels`: further ones. */
export async function makeAgent(
  launch: CommandLaunch,
  store: Store,
  forkModels: readonly ModelAdapter[] = [],
): Promise<Agent> {
  const loaded = launch.module === undefined ? undefined : await loadAgent(launch.module);
  const agent = createAgent({
    ...(loaded?.options ?? { name: 'assistant' }),
    store,
    ...(await modelOf(launch)),
    forkModels: [...(loaded?.options.forkModels ?? []), ...forkModels],
  });
  if (loaded !== undefined) moveListeners(loaded, agent);
  return agent;
}

async function modelOf({ model }: CommandLaunch): Promise<Pick<AgentOptions, 'model'>> {
  if (model === undefined) return {};
  // Imported on demand: it loads the adapters of all providers, and commands that only read need none.
  const { modelFromEnv } = await import('../adapters/model-from-env.ts');
  return { model: modelFromEnv(model) };
}

/** The agents of `modules`, by name, with their launches; without modules the assistant, if it is set. */
export async function makeAgents(
  modules: readonly string[],
  store: Store,
  forkModels: readonly ModelAdapter[] = [],
) {
  const agents = new Map<string, Agent>();
  const launches = new Map<string, CommandLaunch>();
  const requested = modules.length === 0 ? [readLaunch(undefined)] : modules.map(readLaunch);
  for (const launch of requested) {
    if (launch.module === undefined && launch.model === undefined) continue;
    const agent = await makeAgent(launch, store, forkModels);
    const other = launches.get(agent.name);
    if (other !== undefined) {
      throw new EngineError(
        'agent-module-invalid',
        `Two agents are named "${agent.name}": ${formatPath(other.module ?? '')} and ${formatPath(launch.module ?? '')}. Runs find their agent by name: rename one of them.`,
      );
    }
    agents.set(agent.name, agent);
    launches.set(agent.name, launch);
  }
  return { agents, launches };
}

/** The agent that drives a run: `requested`, or as launched. `refused` for a run of a server request. */
export async function agentFor(record: RunRecord, store: Store, requested: CommandLaunch): Promise<Agent> {
  if (record.status !== 'running' && record.status !== 'waiting') return bareAgent(record, store);
  const recalled = await recallLaunch(store, record.runId);
  if (recalled.request !== undefined) {
    throw new EngineError(
      'refused',
      `Run ${record.runId} was started by a request to a server, which has its tools. Continue it there: on the page of \`agentchart serve\`, or with POST /runs/${record.runId}/….`,
    );
  }
  return await makeOwnAgent(record, store, recalled, requested);
}

/** Creates the agent of a run from `recalled`, overridden by `requested`. Throws `run-foreign` if it is another. */
export async function makeOwnAgent(
  record: RunRecord,
  store: Store,
  recalled: CommandLaunch,
  requested: CommandLaunch,
): Promise<Agent> {
  const launch = { ...recalled, ...requested };
  const config = (await readStart(store, record.runId))?.config;
  if (isJsonObject(config) && config.forkModel !== undefined && recalled.model !== undefined)
    launch.model = recalled.model;
  const agent = await makeAgent(launch, store);
  if (namesOf(agent).includes(record.agent)) return agent;
  const { runId, agent: owner } = record;
  const origin = launch.module === undefined ? 'the default agent' : formatPath(launch.module);
  const advice =
    requested.module === undefined || recalled.module === undefined
      ? `Give the module of "${owner}" with --agent MODULE.`
      : `Omit --agent, or give the module of "${owner}".`;
  throw new EngineError(
    'run-foreign',
    `Run ${runId} belongs to agent "${owner}", but ${origin} is "${agent.name}". ${advice}`,
    { runId, owner, agent: agent.name },
  );
}

/** Runs `work`, then closes the agent. An error while closing is reported and does not change the outcome. */
export async function withAgent<Result>(
  agent: Agent,
  output: Output,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } finally {
    await agent.close().catch(error => output.problem(`Closing a tool server failed: ${String(error)}`));
  }
}

/** Creates an agent that reads a run and submits commands, but never drives. Loads no module. */
export function bareAgent(record: RunRecord, store: Store): Agent {
  return createAgent({ name: record.agent, store: nonDrivingStore(store) });
}

/** Creates the models of `--fork-model`; `modelLaunches` has their model strings, by `provider:model`. */
export async function makeForkModels(texts: readonly string[] = []) {
  if (texts.length === 0) return { forkModels: [], modelLaunches: new Map<string, string>() };
  const { modelFromEnv } = await import('../adapters/model-from-env.ts');
  const made = texts.map(text => ({
    launch: absoluteModel(text),
    adapter: modelFromEnv(absoluteModel(text)),
  }));
  return {
    forkModels: made.map(({ adapter }) => adapter),
    modelLaunches: new Map(
      made.map(({ adapter: { provider, model }, launch }) => [`${provider}:${model}`, launch]),
    ),
  };
}

export function absoluteModel(model: string): string {
  const [, file] = /^scripted:(.+)$/s.exec(model) ?? [];
  return file === undefined ? model : `scripted:${resolve(file)}`;
}

export async function checkVersions(
  store: Store,
  { runId }: RunRecord,
  module: string | undefined,
  output: Output,
): Promise<VersionReport> {
  if (module === undefined) return await checkRun(store, runId);
  const { model } = { ...(await recallLaunch(store, runId)), ...readLaunch(undefined) };
  const agent = await loadOnto(store, module, { withModel: model === undefined });
  return await withAgent(agent, output, () => agent.check(runId));
}

/** The agent whose migrations apply to a run: of `requested`, of the module it was started with, or none. */
export async function agentToMigrate(
  store: Store,
  { runId, agent: name }: RunRecord,
  requested: string | undefined,
): Promise<Agent> {
  const module = requested ?? (await recallModule(store, runId));
  return module === undefined
    ? createAgent({ name, store })
    : await loadOnto(store, module, { withModel: true });
}

/** Returns the module in the launch of the run, even if another release wrote the journal. */
async function recallModule(store: Store, runId: string): Promise<string | undefined> {
  const { launch } = (await readStart(store, runId)) ?? {};
  return isJsonObject(launch) && typeof launch.module === 'string' ? launch.module : undefined;
}

/** Loads an agent onto `store`. `withModel: false` omits its model, for a run that uses another one. */
async function loadOnto(store: Store, module: string, { withModel }: { withModel: boolean }): Promise<Agent> {
  const { model, ...options } = (await loadAgent(module)).options;
  return createAgent({ ...options, store, ...omitUndefined({ model: withModel ? model : undefined }) });
}
