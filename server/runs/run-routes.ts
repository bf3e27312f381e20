import type { Context } from 'hono';
import type * as z from 'zod';
import type { Caller } from '../../access/caller.ts';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { type Fold, loadRun } from '../../engine/journal/load-run.ts';
import { recordRequest } from '../../engine/log/request-ids.ts';
import type { Run } from '../../engine/run/run.ts';
import { suspendedCalls } from '../../engine/sub-agents/sub-agent-runs.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import { EngineError, isThrown } from '../../protocol/error.ts';
import { type JsonObject, omitUndefined, toJson } from '../../protocol/json.ts';
import { parseLabels } from '../../protocol/listing/label.ts';
import { readGivenLabels } from '../../protocol/listing/reserved-label.ts';
import type { RunView, Stranding } from '../../protocol/run-view.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { existingRun } from '../../stores/run-record.ts';
import type { Admission } from '../access/admission.ts';
import { withLabelsOf } from '../access/authorize.ts';
import type { Handlers } from '../route.ts';
import type { RUNS_ROUTES } from '../route-table.ts';
import type { RunsEnv } from '../runs-env.ts';
import type { STORY_ROUTES } from '../story/story-table.ts';
import { fork, submitToMany, submitToOne } from './commands/command-routes.ts';
import { type Creation, type RepeatedCommands, wasCreated } from './commands/repeated-commands.ts';
import { forCommands, type listQuery, type startBody } from './commands/request-bodies.ts';
import type { Explorations } from './explore-route.ts';
import type { Strandings } from './find-stranding.ts';
import type { Inbox } from './inbox/read-inbox.ts';
import { readInbox } from './inbox/read-inbox.ts';
import { streamAll, streamEvents } from './live/event-routes.ts';
import type { StreamBounds } from './live/event-stream.ts';
import type { RunChanges } from './live/run-changes.ts';
import {
  downloadCapture,
  downloadResult,
  readEntries,
  readResultPage,
  readState,
} from './reading/journal-routes.ts';
import { findRecord, type Hold, type RunRegistry } from './run-registry.ts';
import { summarizeRun, viewRun } from './run-view.ts';
import type { ServedAgents } from './served-agents.ts';
import { type ShareRoutesOptions, sendExport, sendShared } from './sharing/share-routes.ts';

export type RunRoutesOptions = ShareRoutesOptions & {
  describe(): JsonObject;
  agents: ServedAgents;
  held: RunRegistry;
  strandings: Strandings;
  inbox: Inbox;
  requests: RepeatedCommands;
  changes: RunChanges;
  admission: Admission;
  streamBounds: StreamBounds;
  explorations: Explorations;
};

type Request = Context<RunsEnv>;

/** A command answers once it is durable; the registry then drives the run in the background. */
export function runsHandlers(
  options: RunRoutesOptions,
): Omit<Handlers<typeof RUNS_ROUTES>, keyof typeof STORY_ROUTES> {
  const { store, agents, explorations } = options;
  const commands = {
    ...options,
    viewHeld: (run: Run) => viewHeld(run, options),
    reportStranding: async (run: Run) =>
      await reportStranding(await findRecord(store, run.id), run.durable, options),
  };
  return {
    'GET /openapi.json': c => c.json(options.describe()),
    'GET /me': c => {
      const { name, role, labels } = c.get('caller');
      return c.json({ name, role, labels });
    },
    'GET /agents': c => c.json({ agents: agents.list() }),
    'GET /agents/:name': (c, { params }) => c.json(agents.describe(params.name)),
    'GET /agents/:name/explore': (c, { params, query }) =>
      explorations.stream(c, agents.choose(params.name).name, query),
    'GET /runs': (c, { query }) => listRuns(c, query, store),
    'POST /runs': async (c, { body }) => {
      const run = await beginRun(c.get('caller'), body, options);
      c.header('Location', `/runs/${run.id}`);
      return c.json(await viewHeld(run, options), 201);
    },
    'GET /runs/:id': async (c, { params }) => {
      const record = await findRecord(store, params.id, c.get('caller'));
      return c.json(await view(record, await loadRun(store, record.runId), options));
    },
    'DELETE /runs/:id': async (c, { params }) => {
      const record = await findRecord(store, params.id, c.get('caller'));
      await store.delete(record.runId, { now: options.host.now(), isDead: isOwnerDead });
      options.changes.noteDeleted(record);
      return c.body(null, 204);
    },
    'GET /runs/:id/events': (c, { params }) => streamEvents(c, params.id, options),
    'GET /runs/:id/entries': (c, { params, query }) => readEntries(c, store, params.id, query),
    'GET /runs/:id/entries/:seq/requests': (c, { params }) => downloadCapture(c, store, params),
    'GET /runs/:id/state': (c, { params, query }) => readState(c, store, params.id, query),
    'GET /runs/:id/results/:call': (c, { params, query }) => readResultPage(c, store, params, query),
    'GET /runs/:id/results/:call/download': (c, { params }) => downloadResult(c, store, params),
    'GET /runs/:id/explore': async (c, { params, query }) => {
      const record = await findRecord(store, params.id, c.get('caller'));
      return explorations.streamRun(c, agents.nameServing(record.agent), record, query);
    },
    'GET /runs/:id/export': (c, { params, query }) => sendExport(c, params.id, query, options),
    'GET /runs/:id/share': (c, { params, query }) => sendShared(c, params.id, query, options),
    'GET /inbox': (c, { query }) => readInbox(c, query, options.inbox),
    'GET /events': (c, { query }) => streamAll(c, query, options),
    'POST /runs/bulk': (c, { body }) => submitToMany(c, body, commands),
    'POST /runs/:id/fork': (c, { params, body }) => fork(c, params.id, body, commands),
    ...forCommands(
      (name, { needsAgent }) =>
        (c: Request, { params, body }: { params: { id: string }; body: unknown }) =>
          submitToOne(c, { runId: params.id, name, body, needsAgent }, commands),
    ),
  };
}

async function listRuns(
  c: Request,
  { label = [], ...filter }: z.output<typeof listQuery>,
  store: Store,
): Promise<Response> {
  const caller = c.get('caller');
  const damaged: string[] = [];
  const { runs, next } = await store.list({
    ...filter,
    labels: withLabelsOf(caller, parseLabels(label)),
    onDamaged: ({ message }) => damaged.push(message),
  });
  return c.json({
    runs: runs.map(summarizeRun),
    ...omitUndefined({ next }),
    ...(damaged.length > 0 && Object.keys(caller.labels).length === 0 && { damaged }),
  });
}

/** Starts the run of a request, or finds the one that it started before. This server drives it. */
export async function beginRun(
  caller: Caller,
  body: z.output<typeof startBody>,
  options: RunRoutesOptions,
): Promise<Run> {
  const { host, agents, held, admission } = options;
  const { agent: name, input, labels, continues, requestId, ...start } = body;
  const agent = agents.choose(name);
  const launch = agents.launchOf(agent.name);
  // The run that it continues has the caller's labels, so that the new run inherits them.
  if (continues !== undefined) await findRecord(options.store, continues, caller);
  const isInherited = labels === undefined && continues !== undefined;
  const own = isInherited ? undefined : withLabelsOf(caller, readGivenLabels(labels ?? {}));
  const request = recordRequest(body);
  const given = omitUndefined({ launch, continues, labels: own, request });
  const runId = requestId === undefined ? host.newId('run') : runIdOf(caller, requestId);
  const release = await admission.admit(caller);
  const creation = { store: options.store, runId, request };
  const begin = async () => {
    if (await wasCreated(creation)) throw existingRun(runId);
    return await held.begin(runId, () => agent.start(input, { ...start, ...given, runId }));
  };
  const run = await begin()
    .catch(error => findStarted(error, creation, held))
    .catch(error => {
      release();
      throw error;
    });
  if (held.drives) run.settled().then(release, release);
  else release();
  return run;
}

/** The id of the run that a request starts. Callers who see the same runs share request ids. */
function runIdOf({ name, labels }: Caller, requestId: string): string {
  const owner = Object.keys(labels).length > 0 ? { labels } : { name };
  return `run_${digestOf(toJson({ owner, start: requestId }))}`;
}

/** Returns the run that an earlier request with the same id started. Rethrows an `error` other than `run-exists`. */
async function findStarted(error: unknown, creation: Creation, held: RunRegistry): Promise<Run> {
  const { runId } = creation;
  if (!isThrown(error, EngineError) || error.code !== 'run-exists') throw error;
  let hold: Hold;
  try {
    hold = await held.hold(runId);
  } catch (again) {
    // It shared an earlier request that was still starting the run, when another server had started it.
    return await findStarted(again, creation, held);
  }
  try {
    if (!(await wasCreated(creation))) throw error;
    held.drive(runId);
    return hold.run;
  } finally {
    hold.release();
  }
}

/** Builds the view from the state in memory, without reading the journal again. Logs that no process drives the run. */
async function viewHeld(run: Run, options: RunRoutesOptions): Promise<RunView> {
  const record = await findRecord(options.store, run.id);
  return await view(record, run.durable, options, reportStranding);
}

async function view(
  record: RunRecord,
  fold: Fold,
  options: RunRoutesOptions,
  strandingOf = findStranding,
): Promise<RunView> {
  const { store, host, agents } = options;
  return await viewRun(record, fold, {
    store,
    host,
    availableAgent: agents.has(record.agent),
    showText: text => agents.showText(record.agent, text),
    ...omitUndefined({ stranded: await strandingOf(record, fold, options) }),
  });
}

/** Why no process drives the run, or one below it. Looks below only if the run waits for a sub-agent. */
async function findStranding(
  record: RunRecord,
  { state }: Fold,
  { strandings }: RunRoutesOptions,
): Promise<Stranding | undefined> {
  const mayHaveWork = record.status === 'running' || suspendedCalls(state.context).length > 0;
  return mayHaveWork ? await strandings.find(record) : undefined;
}

async function reportStranding(
  record: RunRecord,
  fold: Fold,
  options: RunRoutesOptions,
): Promise<Stranding | undefined> {
  const stranding = await findStranding(record, fold, options);
  options.strandings.log(stranding);
  return stranding;
}
