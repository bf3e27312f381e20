import { resolve } from 'node:path';
import { readStart } from '../engine/journal/read-journal.ts';
import { EngineError } from '../protocol/error.ts';
import { isJsonObject, type JsonValue } from '../protocol/json.ts';
import type { RunRecord, Store } from '../protocol/store.ts';
import { nonDrivingStore } from '../stores/non-driving-store.ts';
import { type Agent, createAgent } from '../tools/agent/agent.ts';
import { namesOf } from '../tools/agent/sub-agents.ts';
import { loadAgent } from './load-agent.ts';

/** What a run is made from: kept in `run.started`, so that a later command need not be told. */
export type Launch = { module?: string; model?: string; request?: JsonValue };

/** What this command says: `--agent` and `AGENTCHART_MODEL`, with files as absolute paths. */
export function readLaunch(module: string | undefined): Launch {
  const model = process.env.AGENTCHART_MODEL?.trim() ?? '';
  return {
    ...(module === undefined ? {} : { module: resolve(module) }),
    ...(model === '' ? {} : { model: absoluteModel(model) }),
  };
}

/** What the run's first event says, of a sub-agent's run that of the run at the top; nothing for one that came from elsewhere. */
export async function recallLaunch(store: Store, runId: string): Promise<Launch> {
  const start = await readStart(store, await findTop(store, runId));
  return isJsonObject(start?.launch) ? start.launch : {};
}

/** The run that a sub-agent's run works for, directly or through others; any other run itself. */
export async function findTop(store: Store, runId: string): Promise<string> {
  const { parent } = (await readStart(store, runId)) ?? {};
  const above = isJsonObject(parent) ? parent.runId : undefined;
  if (typeof above !== 'string' || (await store.get(above)) === undefined) return runId;
  return await findTop(store, above);
}

/** The agent a launch describes, on this store. Without a module, a plain one that only has a model. */
export async function makeAgent(launch: Launch, store: Store): Promise<Agent> {
  const options =
    launch.module === undefined ? { name: 'assistant' } : (await loadAgent(launch.module)).options;
  if (launch.model === undefined) return createAgent({ ...options, store });
  // Every provider's adapter comes with it, and a command that only reads needs none.
  const { modelFromEnv } = await import('../adapters/model-from-env.ts');
  return createAgent({ ...options, store, model: modelFromEnv(launch.model) });
}

/** The agent a run goes on with: what this command says goes before what the run remembers. A run that has ended needs none. */
export async function agentFor(record: RunRecord, store: Store, said: Launch): Promise<Agent> {
  if (record.status !== 'running' && record.status !== 'waiting') return bareAgent(record, store);
  const recalled = await recallLaunch(store, record.runId);
  if (recalled.request !== undefined) {
    throw new EngineError(
      'refused',
      `Run ${record.runId} was begun by a request to a server, which has its tools. Go on with it there: on the page of \`agentchart serve\`, or with POST /runs/${record.runId}/….`,
    );
  }
  return await makeOwnAgent(record, store, recalled, said);
}

/** The agent of a run, and no other: throws `run-foreign` where what is said or remembered makes another. */
export async function makeOwnAgent(
  record: RunRecord,
  store: Store,
  recalled: Launch,
  said: Launch,
): Promise<Agent> {
  const launch = { ...recalled, ...said };
  const agent = await makeAgent(launch, store);
  if (namesOf(agent).includes(record.agent)) return agent;
  const { runId, agent: owner } = record;
  const made = launch.module === undefined ? 'without --agent this' : launch.module;
  const advice =
    said.module === undefined || recalled.module === undefined
      ? `Name the module of "${owner}" with --agent MODULE.`
      : `Leave --agent out, or name the module of "${owner}".`;
  throw new EngineError(
    'run-foreign',
    `Run ${runId} belongs to agent "${owner}", and ${made} is "${agent.name}". ${advice}`,
    { runId, owner, agent: agent.name },
  );
}

/** An agent that can read a run and say things to it, and never drives it. Loads no module. */
export function bareAgent(record: RunRecord, store: Store): Agent {
  return createAgent({ name: record.agent, store: nonDrivingStore(store) });
}

function absoluteModel(model: string): string {
  const [, file] = /^scripted:(.+)$/s.exec(model) ?? [];
  return file === undefined ? model : `scripted:${resolve(file)}`;
}
