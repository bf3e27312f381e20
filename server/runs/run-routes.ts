import type * as z from 'zod';
import { byOf, type Caller, personOf } from '../../access/caller.ts';
import { describeRole, may, rightsOf } from '../../access/role.ts';
import { deleteRuns } from '../../agent/delete-runs.ts';
import { isOwnerDead } from '../../engine/host/owner.ts';
import { loadRun } from '../../engine/journal/load-run.ts';
import { recordRequest } from '../../engine/log/request-ids.ts';
import { openCapture, openResult } from '../../engine/run/read-result.ts';
import type { Run } from '../../engine/run/run.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import { invalidInput } from '../../protocol/error.ts';
import { omitUndefined, toJson } from '../../protocol/json.ts';
import { parseLabels, readLabels } from '../../protocol/listing/label.ts';
import { listAll, type RunRecord, type Store } from '../../protocol/store.ts';
import { forbidden, withLabelsOf } from '../access/authorize.ts';
import { ApiError } from '../error-envelope.ts';
import type { Handlers } from '../route.ts';
import type { RUNS_ROUTES } from '../route-table.ts';
import type { STORY_ROUTES } from '../story/story-table.ts';
import { beginWithin } from './begin-run.ts';
import { createOnce, fork, submitToMany, submitToOne } from './commands/command-routes.ts';
import { forCommands, type listQuery, type startBody } from './commands/request-bodies.ts';
import { readInbox } from './inbox/read-inbox.ts';
import { readItem } from './inbox/read-item.ts';
import { streamAll, streamEvents } from './live/event-routes.ts';
import { readEntries, readState, sendText } from './reading/journal-routes.ts';
import { readFolded } from './reading/read-folded.ts';
import { sendNotes } from './reading/read-notes.ts';
import { answerThread, deleteThread, listThreads } from './reading/read-threads.ts';
import { readTotals } from './reading/read-totals.ts';
import { readRegressions } from './regressions/read-regressions.ts';
import { sumRegressions } from './regressions/sum-regressions.ts';
import { type RouteParts, type RunRequest, viewHeld, viewStored } from './route-parts.ts';
import { findRecord, whileHeld } from './run-registry.ts';
import { summarizeRun } from './run-view.ts';
import { sendExport, sendShared } from './sharing/share-routes.ts';

/** A command answers once it is durable; the registry then drives the run in the background. */
export function runsHandlers(
  parts: RouteParts,
): Omit<Handlers<typeof RUNS_ROUTES>, keyof typeof STORY_ROUTES> {
  const { store, host, agents, explorations } = parts;
  const ofRun =
    <Input extends { params: { id: string } }>(
      answer: (c: RunRequest, record: RunRecord, input: Input) => Response | Promise<Response>,
    ) =>
    async (c: RunRequest, input: Input) =>
      await answer(c, await findRecord(store, input.params.id, c.get('caller')), input);
  return {
    'GET /openapi.json': c => c.json(parts.describe()),
    'GET /me': c => {
      const { name, role, groups, labels } = c.get('caller');
      const can = describeRole({ role });
      return c.json({ name, role, rights: rightsOf({ role }), can, groups, labels });
    },
    'GET /agents': c => c.json({ agents: agents.list() }),
    'GET /agents/:name': (c, { params }) => c.json(agents.describe(params.name)),
    'GET /agents/:name/explore': (c, { params, query }) =>
      explorations.stream(c, agents.choose(params.name).name, query),
    'GET /runs': (c, { query }) => listRuns(c, query, store),
    'POST /runs': async (c, { body }) => await sendCreated(c, await beginRun(c.get('caller'), body, parts)),
    'DELETE /runs': async (c, { query }) => {
      const caller = c.get('caller');
      const labels = withLabelsOf(caller, parseLabels(query.label));
      const records = new Map<string, RunRecord>();
      for await (const record of listAll(store, { labels })) records.set(record.runId, record);
      const deleted = await deleteRuns(store, { labels, ...omitUndefined({ by: byOf(caller) }) });
      for (const runId of deleted) parts.changes.noteDeleted(records.get(runId) ?? { runId, labels });
      return c.json({ deleted });
    },
    'GET /runs/:id': ofRun(async (c, record) =>
      c.json(await viewStored(record, await loadRun(store, record.runId), parts)),
    ),
    'DELETE /runs/:id': ofRun(async (c, record) => {
      await store.delete(record.runId, { now: host.now(), isDead: isOwnerDead });
      parts.changes.noteDeleted(record);
      return c.body(null, 204);
    }),
    'POST /runs/:id/sign-in/begin': ofRun(async (c, record, { body: { server } }) => {
      const caller = c.get('caller');
      if (Object.keys(caller.labels).length > 0)
        throw new ApiError(
          'forbidden',
          'A sign-in gives runs of all labels access; this token is for runs with its labels.',
        );
      // A proxy in front may have ended TLS: what the page says has been compared with the Host header.
      const origin = c.req.header('origin') ?? new URL(c.req.url).origin;
      const begun = { agentName: record.agent, server, origin };
      return c.json(await parts.signIns.begin(begun, personOf(caller)));
    }),
    'GET /runs/:id/events': (c, { params }) => streamEvents(c, params.id, parts),
    'GET /runs/:id/entries': ofRun((c, record, { query }) => readEntries(c, store, record, query)),
    'GET /runs/:id/entries/:seq/requests': ofRun(async (c, { runId }, { params }) =>
      sendText(c, await openCapture(store, runId, Number(params.seq)), 'requests.json.txt'),
    ),
    'GET /runs/:id/state': ofRun((c, record, { query }) => readState(c, store, record, query)),
    'GET /runs/:id/results/:call': ofRun(async (c, { runId }, { params: { call: callId }, query }) => {
      const { isError, bytes, digest, page } = await openResult(store, runId, callId);
      const part = await page(query.offset, query.limit);
      return c.json({ callId, isError, bytes, ...omitUndefined({ digest }), ...part });
    }),
    'GET /runs/:id/results/:call/download': ofRun(async (c, { runId }, { params }) =>
      sendText(c, (await openResult(store, runId, params.call)).pages(), 'result.json.txt'),
    ),
    'GET /runs/:id/explore': ofRun((c, record, { query }) =>
      explorations.streamRun(c, agents.nameServing(record.agent), record, query),
    ),
    'GET /runs/:id/export': ofRun((c, record, { query }) => sendExport(c, record, query, parts)),
    'GET /runs/:id/share': ofRun((c, record, { query }) => sendShared(c, record, query, parts)),
    'GET /threads': (c, { query }) => listThreads(c, query, parts),
    'GET /threads/:id': (c, { params, query }) => answerThread(c, params.id, query, parts),
    'DELETE /threads/:id': (c, { params, query }) => deleteThread(c, params.id, query, parts),
    'GET /folded': (c, { query }) => readFolded(c, query, store),
    'GET /totals': (c, { query }) => readTotals(c, query, store),
    'GET /inbox': (c, { query }) => readInbox(c, query, parts.inbox),
    'GET /inbox/:run/:call': async (c, { params: { run, call } }) =>
      readItem(c, await findRecord(store, run, c.get('caller')), call, parts),
    'GET /notes': (c, { query }) => sendNotes(c, store, query),
    'GET /regressions': (c, { query }) => readRegressions(c, query, parts.regressions),
    'GET /regressions/sums': (c, { query }) => sumRegressions(c, query, parts.regressions),
    'GET /events': (c, { query }) => streamAll(c, query, parts),
    'POST /runs/bulk': (c, { body }) => submitToMany(c, body, parts),
    'POST /runs/:id/fork': ofRun(async (c, record, { body }) =>
      sendCreated(c, await fork(c.get('caller'), record, body, parts)),
    ),
    ...forCommands(
      name =>
        (c: RunRequest, { params, body }: { params: { id: string }; body: unknown }) =>
          submitToOne(c, { runId: params.id, name, body }, parts),
    ),
  };

  async function sendCreated(c: RunRequest, run: Run): Promise<Response> {
    c.header('Location', `/runs/${run.id}`);
    return c.json(await viewHeld(run, parts), 201);
  }
}

async function listRuns(
  c: RunRequest,
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

export async function beginRun(
  caller: Caller,
  body: z.output<typeof startBody>,
  parts: RouteParts,
): Promise<Run> {
  const { store, host, agents, held } = parts;
  const { agent: name, input, labels, continues, thread, requestId, by, ...start } = body;
  if (start.limits !== undefined && !may(caller, 'command')) throw forbidden(caller);
  const agent = agents.choose(name);
  const launch = agents.launchOf(agent.name);
  // The run that it continues has the caller's labels, so that the new run inherits them.
  if (continues !== undefined) await findRecord(store, continues, caller);
  const isInherited = labels === undefined && continues !== undefined;
  const own = isInherited ? undefined : withLabelsOf(caller, readLabels(labels ?? {}));
  if (thread !== undefined) {
    if (requestId !== undefined)
      throw invalidInput(
        'thread: cannot be sent with a requestId. Read the thread to see whether it has the message.',
      );
    const more = omitUndefined({ launch, continues, by: byOf(caller, by) });
    const wanted = withLabelsOf(caller, readLabels(labels ?? {}));
    const run = await beginWithin(parts)(
      caller,
      agent,
      async () => agent.start(input, { ...start, ...more, thread, labels: wanted }),
      agent.thread(thread, { labels: wanted }),
    );
    return await whileHeld(held.keep(run), async hold => hold.run);
  }
  const request = recordRequest(body);
  const given = omitUndefined({ launch, continues, labels: own, request, by: byOf(caller, by) });
  const runId = requestId === undefined ? host.newId('run') : runIdOf(caller, requestId);
  return await createOnce(caller, { store, runId, request }, parts, () =>
    held.begin(runId, () => agent.start(input, { ...start, ...given, runId })),
  );
}

/** The id of the run that a request starts. Callers who see the same runs share request ids. */
function runIdOf({ name, labels }: Caller, requestId: string): string {
  const owner = Object.keys(labels).length > 0 ? { labels } : { name };
  return `run_${digestOf(toJson({ owner, start: requestId }))}`;
}
