import type { Context, Hono } from 'hono';
import { etag } from 'hono/etag';
import type { Caller } from '../../access/caller.ts';
import type { Host } from '../../engine/driver/host.ts';
import { isOwnerDead } from '../../engine/driver/owner.ts';
import { digestOf } from '../../engine/journal/digest.ts';
import { type Fold, loadRun } from '../../engine/journal/load-run.ts';
import { recordRequest } from '../../engine/journal/request-ids.ts';
import type { Run } from '../../engine/run/run.ts';
import { suspendedCalls } from '../../engine/sub-agents/child-runs.ts';
import { EngineError, isThrown } from '../../protocol/error.ts';
import { omitUndefined, toJson } from '../../protocol/json.ts';
import { parseLabels } from '../../protocol/listing/label.ts';
import { readGivenLabels } from '../../protocol/listing/reserved-label.ts';
import type { RunView, Stranding } from '../../protocol/run-view.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { existingRun } from '../../stores/run-record.ts';
import type { Admission } from '../access/admission.ts';
import { withLabelsOf } from '../access/gate.ts';
import { type BodyLimits, describeIssues, readBody } from '../read-body.ts';
import type { RunsEnv } from '../runs-env.ts';
import { addCommandRoutes } from './commands/command-routes.ts';
import { fork } from './commands/fork-route.ts';
import type { RepeatedCommands } from './commands/repeated-commands.ts';
import { type Creation, wasCreated } from './commands/repeated-creations.ts';
import { listQuery, startBody } from './commands/request-bodies.ts';
import type { Strandings } from './find-stranding.ts';
import { readInbox } from './inbox/inbox-routes.ts';
import type { Inbox } from './inbox/read-inbox.ts';
import { streamAll, streamEvents } from './live/event-routes.ts';
import type { StreamBounds } from './live/event-stream.ts';
import type { RunChanges } from './live/run-changes.ts';
import { readEntries, readState } from './reading/journal-routes.ts';
import { downloadCapture, downloadResult, readResultPage } from './result-routes.ts';
import { findRecord, type Hold, type RunRegistry } from './run-registry.ts';
import { summarizeRun, viewRun } from './run-view.ts';
import type { ServedAgents } from './served-agents.ts';

type RunRoutesOptions = {
  store: Store;
  clock: Host;
  agents: ServedAgents;
  held: RunRegistry;
  strandings: Strandings;
  inbox: Inbox;
  requests: RepeatedCommands;
  changes: RunChanges;
  admission: Admission;
  bodyLimits: BodyLimits;
  streamBounds: StreamBounds;
  log(line: string): void;
};

type Request = Context<RunsEnv>;

/** Answers 304 if the client already has the same response. */
const tagged = etag({ weak: true });

/**
 * The routes under `/runs`: start, list, read, delete and stream runs, read results, and submit commands
 * (`run-commands.ts`). A command answers with the run's view after the command is durable; the registry then drives the
 * run in the background. Errors are thrown as `ApiError` or `EngineError`; `app.ts` turns them into responses.
 */
export function addRunRoutes(app: Hono<RunsEnv>, options: RunRoutesOptions): void {
  const { store, clock } = options;
  app.post('/runs', c => startRun(c, options));
  app.get('/runs', tagged, async c => {
    const labelled = omitUndefined({ label: c.req.queries('label') });
    const query = listQuery.safeParse({ ...c.req.query(), ...labelled });
    if (!query.success) throw describeIssues(query.error.issues);
    const { label = [], q, ...given } = query.data;
    const filter = { ...given, ...omitUndefined({ text: q ?? given.text }) };
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
  });
  app.get('/runs/:id', tagged, async c => {
    const record = await findRecord(store, c.req.param('id'), c.get('caller'));
    return c.json(await view(record, await loadRun(store, record.runId), options));
  });
  app.delete('/runs/:id', async c => {
    const record = await findRecord(store, c.req.param('id'), c.get('caller'));
    await store.delete(record.runId, { now: clock.now(), isDead: isOwnerDead });
    options.changes.noteDeleted(record);
    return c.body(null, 204);
  });
  app.get('/inbox', tagged, c => readInbox(c, options.inbox));
  app.get('/events', c => streamAll(c, options));
  app.get('/runs/:id/events', c => streamEvents(c, c.req.param('id'), options));
  app.get('/runs/:id/entries', tagged, c => readEntries(c, store, c.req.param('id')));
  app.get('/runs/:id/state', tagged, c => readState(c, store, c.req.param('id')));
  app.get('/runs/:id/results/:call', c => readResultPage(c, store, c.req.param('id'), c.req.param('call')));
  app.get('/runs/:id/results/:call/download', c =>
    downloadResult(c, store, c.req.param('id'), c.req.param('call')),
  );
  app.get('/runs/:id/entries/:seq/requests', c =>
    downloadCapture(c, store, c.req.param('id'), c.req.param('seq')),
  );
  const commands = {
    ...options,
    viewHeld: (run: Run) => viewHeld(run, options),
    reportStranding: async (run: Run) =>
      await reportStranding(await findRecord(store, run.id), run.durable, options),
  };
  addCommandRoutes(app, commands);
  app.post('/runs/:id/fork', c => fork(c, c.req.param('id'), commands));
}

async function startRun(c: Request, options: RunRoutesOptions): Promise<Response> {
  const { clock, agents, held, admission, bodyLimits } = options;
  const body = await readBody(c.req.raw, startBody, bodyLimits);
  const { agent: name, input, labels, continues, requestId, ...start } = body;
  const agent = agents.choose(name);
  const launch = agents.launchOf(agent.name);
  const caller = c.get('caller');
  // The run that it continues has the caller's labels, so that the new run inherits them.
  if (continues !== undefined) await findRecord(options.store, continues, caller);
  const isInherited = labels === undefined && continues !== undefined;
  const own = isInherited ? undefined : withLabelsOf(caller, readGivenLabels(labels ?? {}));
  const request = recordRequest(body);
  const given = omitUndefined({ launch, continues, labels: own, request });
  const runId = requestId === undefined ? clock.newId('run') : runIdOf(caller, requestId);
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
  c.header('Location', `/runs/${runId}`);
  return c.json(await viewHeld(run, options), 201);
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
  const { store, clock, agents } = options;
  return await viewRun(record, fold, {
    store,
    host: clock,
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
