import type { Context } from 'hono';
import type { Host } from '../../engine/host/host.ts';
import type { Fold } from '../../engine/journal/load-run.ts';
import type { Run } from '../../engine/run/run.ts';
import { suspendedCalls } from '../../engine/sub-agents/sub-agent-runs.ts';
import { type JsonObject, omitUndefined } from '../../protocol/json.ts';
import type { RunView, Stranding } from '../../protocol/run-view.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import type { Admission } from '../access/admission.ts';
import type { PageAssets } from '../page-assets.ts';
import type { RunsEnv } from '../runs-env.ts';
import type { RepeatedCommands } from './commands/repeated-commands.ts';
import type { Explorations } from './explore-route.ts';
import type { Strandings } from './find-stranding.ts';
import type { Inbox } from './inbox/read-inbox.ts';
import type { StreamBounds } from './live/event-stream.ts';
import type { RunChanges } from './live/run-changes.ts';
import type { Regressions } from './regressions/read-regressions.ts';
import { findRecord, type RunRegistry } from './run-registry.ts';
import { viewRun } from './run-view.ts';
import type { ServedAgents } from './served-agents.ts';
import type { SignIns } from './sign-ins.ts';

/** Makes the source of a test from a run. Throws `refused` if the test would fail. */
export type ExportTest = (store: Store, runId: string) => Promise<string>;

export type RouteParts = {
  store: Store;
  host: Host;
  agents: ServedAgents;
  held: RunRegistry;
  strandings: Strandings;
  inbox: Inbox;
  regressions: Regressions;
  requests: RepeatedCommands;
  changes: RunChanges;
  explorations: Explorations;
  signIns: SignIns;
  admission: Admission;
  streamBounds: StreamBounds;
  assets: PageAssets | undefined;
  exportTest: ExportTest | undefined;
  describe(): JsonObject;
  log(line: string): void;
};

export type RunRequest = Context<RunsEnv>;

/** Builds the view from the state in memory, without reading the journal again. Logs that no process drives the run. */
export async function viewHeld(run: Run, parts: RouteParts): Promise<RunView> {
  const record = await findRecord(parts.store, run.id);
  const stranded = await reportStranding(record, run.durable, parts);
  return await view(record, run.durable, stranded, parts);
}

export async function viewStored(record: RunRecord, fold: Fold, parts: RouteParts): Promise<RunView> {
  return await view(record, fold, await findStranding(record, fold, parts), parts);
}

async function view(
  record: RunRecord,
  fold: Fold,
  stranded: Stranding | undefined,
  { store, host, agents }: RouteParts,
): Promise<RunView> {
  const availableAgent = agents.has(record.agent);
  const showText = (text: string) => agents.showText(record.agent, text);
  return await viewRun(record, fold, {
    store,
    host,
    availableAgent,
    showText,
    ...omitUndefined({ stranded }),
  });
}

/** Why no process drives the run, or one below it. Looks below only if the run waits for a sub-agent. */
async function findStranding(
  record: RunRecord,
  { state }: Fold,
  { strandings }: RouteParts,
): Promise<Stranding | undefined> {
  const mayHaveWork = record.status === 'running' || suspendedCalls(state.context).length > 0;
  return mayHaveWork ? await strandings.find(record) : undefined;
}

export async function reportStranding(
  record: RunRecord,
  fold: Fold,
  parts: RouteParts,
): Promise<Stranding | undefined> {
  const stranding = await findStranding(record, fold, parts);
  parts.strandings.log(stranding);
  return stranding;
}
