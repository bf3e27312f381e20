import { readStart } from '../engine/journal/read-journal.ts';
import { checkRun } from '../engine/versions/check-run.ts';
import type { VersionReport } from '../engine/versions/compare-versions.ts';
import { isJsonObject } from '../protocol/json.ts';
import type { RunRecord, Store } from '../protocol/store.ts';
import { type Agent, createAgent } from '../tools/agent/agent.ts';
import { closing } from './change-run.ts';
import { readLaunch, recallLaunch } from './launch.ts';
import { loadAgent } from './load-agent.ts';
import type { Output } from './render/output.ts';

/** The run's journal held against this program, and against the agent of a module if one is named. */
export async function checkVersions(
  store: Store,
  { runId }: RunRecord,
  module: string | undefined,
  output: Output,
): Promise<VersionReport> {
  if (module === undefined) return await checkRun(store, runId);
  const { model } = { ...(await recallLaunch(store, runId)), ...readLaunch(undefined) };
  const agent = await agentOf(module, store, model === undefined);
  return await closing(agent, output, () => agent.check(runId));
}

/** The agent whose migrations a run is migrated with: of the module that is named, or that the run remembers. */
export async function agentToMigrate(
  store: Store,
  { runId, agent: name }: RunRecord,
  said: string | undefined,
): Promise<Agent> {
  const module = said ?? (await recallModule(store, runId));
  return module === undefined ? createAgent({ name, store }) : await agentOf(module, store);
}

/** Whatever release wrote it. */
async function recallModule(store: Store, runId: string): Promise<string | undefined> {
  const { launch } = (await readStart(store, runId)) ?? {};
  return isJsonObject(launch) && typeof launch.module === 'string' ? launch.module : undefined;
}

/** None of its models is called; they are left out where the run goes on with another that somebody named. */
async function agentOf(module: string, store: Store, withModels = true): Promise<Agent> {
  const { model, ...options } = (await loadAgent(module)).options;
  return createAgent({ ...options, store, ...(withModels && model !== undefined ? { model } : {}) });
}
