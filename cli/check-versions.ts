import { type Agent, createAgent } from '../agent/agent.ts';
import { readStart } from '../engine/journal/read-journal.ts';
import { checkRun } from '../engine/versions/check-run.ts';
import type { VersionReport } from '../engine/versions/compare-versions.ts';
import { isJsonObject, omitUndefined } from '../protocol/json.ts';
import type { RunRecord, Store } from '../protocol/store.ts';
import { withAgent } from './change-run.ts';
import { readLaunch, recallLaunch } from './launch.ts';
import { loadAgent } from './load-agent.ts';
import type { Output } from './render/output.ts';

/** Compares a run with this release and, if `module` is given, with the agent of that module. */
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

/**
 * Returns the agent whose migrations apply to a run: from `requested` (a module), else from the module that
 * the run was started with, else one without migrations.
 */
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
