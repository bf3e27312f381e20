import { type LoadedRun, loadRun } from '../engine/journal/load-run.ts';
import { checkRun } from '../engine/migrations/check-run.ts';
import type { AgentDefinition } from '../engine/services/definition.ts';
import type { VersionReport } from '../engine/versions/compare-versions.ts';
import { versionMismatch } from '../engine/versions/version-mismatch.ts';
import { EngineError } from '../protocol/error.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { Store } from '../protocol/store.ts';
import type { Tool } from '../protocol/tool.ts';

/** Compares a run with this release and with the agent as it is now. */
export async function checkAgainst(
  { name, version, models, migrations }: AgentDefinition,
  tools: ReadonlyMap<string, Tool>,
  store: Store,
  runId: string,
): Promise<VersionReport> {
  const present = {
    agent: { name, ...omitUndefined({ version }) },
    models: models.map(({ provider, model }) => ({ provider, model })),
    tools,
  };
  return await checkRun(store, runId, present, migrations);
}

/** Loads a run. For `chart-mismatch` the error includes the report of `check`, with the migrations of its agent. */
export async function loadChecked(
  store: Store,
  runId: string,
  findDefinition: () => Promise<AgentDefinition>,
): Promise<LoadedRun> {
  try {
    return await loadRun(store, runId);
  } catch (error) {
    const { migrations } = await findDefinition();
    if (!(error instanceof EngineError) || error.code !== 'chart-mismatch') throw error;
    const report = await checkRun(store, runId, undefined, migrations);
    throw report.opens ? error : versionMismatch(report);
  }
}
