import type { HttpBindings } from '@hono/node-server';
import type { Context, Hono } from 'hono';
import type { Host } from '../../engine/host.ts';
import { isOwnerDead } from '../../engine/owner.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { ApiError } from './error-envelope.ts';
import { EventStream, type StreamBounds } from './event-stream.ts';
import { findRecord } from './find-record.ts';
import type { HeldRuns } from './held-runs.ts';
import { type BodyLimits, describeIssues, readBody } from './read-body.ts';
import { listQuery, startBody } from './request-bodies.ts';
import { downloadResult, readResultPage } from './result-routes.ts';
import { RUN_COMMANDS, type RunCommand } from './run-commands.ts';
import { summarizeRun, viewRun } from './run-view.ts';
import type { ServedAgents } from './served-agents.ts';

export type RunRoutesOptions = {
  store: Store;
  clock: Host;
  agents: ServedAgents;
  held: HeldRuns;
  bodyLimits: BodyLimits;
  streamBounds: StreamBounds;
  log(line: string): void;
};

/** Without a socket, as in tests, there are no bindings. */
export type RunsEnv = { Bindings: Partial<HttpBindings> };

type Request = Context<RunsEnv>;

/** Everything under `/runs`. */
export function addRunRoutes(app: Hono<RunsEnv>, options: RunRoutesOptions): void {
  const { store, clock } = options;
  app.post('/runs', c => startRun(c, options));
  app.get('/runs', async c => {
    const query = listQuery.safeParse(c.req.query());
    if (!query.success) throw describeIssues(query.error.issues);
    const damaged: string[] = [];
    const records = await store.list({ ...query.data, onDamaged: ({ message }) => damaged.push(message) });
    return c.json({ runs: records.map(summarizeRun), ...(damaged.length > 0 && { damaged }) });
  });
  app.get('/runs/:id', async c => c.json(await view(await findRecord(store, c.req.param('id')), options)));
  app.delete('/runs/:id', async c => {
    await store.delete((await findRecord(store, c.req.param('id'))).runId, {
      now: clock.now(),
      isDead: isOwnerDead,
    });
    return c.body(null, 204);
  });
  app.get('/runs/:id/events', c => streamEvents(c, c.req.param('id'), options));
  app.get('/runs/:id/results/:call', c => readResultPage(c, store, c.req.param('id'), c.req.param('call')));
  app.get('/runs/:id/results/:call/download', c =>
    downloadResult(c, store, c.req.param('id'), c.req.param('call')),
  );
  for (const [name, command] of Object.entries(RUN_COMMANDS)) {
    app.post(`/runs/:id/${name}`, c => tellRun(c, c.req.param('id') ?? '', command, options));
  }
}

async function startRun(c: Request, options: RunRoutesOptions): Promise<Response> {
  const { store, clock, agents, held, bodyLimits } = options;
  const body = await readBody(c.req.raw, startBody, bodyLimits);
  const { agent: name, input, ...start } = body;
  const agent = agents.choose(name);
  const launch = agents.launchOf(agent.name);
  const runId = clock.newId('run');
  await held.begin(runId, () =>
    agent.start(input, { ...start, runId, ...(launch === undefined ? {} : { launch }) }),
  );
  c.header('Location', `/runs/${runId}`);
  return c.json(await view(await findRecord(store, runId), options), 201);
}

async function tellRun(
  c: Request,
  runId: string,
  command: RunCommand,
  options: RunRoutesOptions,
): Promise<Response> {
  const { store, agents, held, bodyLimits } = options;
  const body = await readBody(c.req.raw, command.body, bodyLimits);
  const record = await findRecord(store, runId);
  if (command.needsAgent && !agents.has(record.agent)) throw unavailable(record);
  const { run, release } = await held.hold(runId);
  try {
    const result = await command.apply(run, body);
    if (!result.accepted) {
      const place = 'index' in result ? { details: { index: result.index } } : {};
      throw new ApiError(result.code, result.message, { by: result.by, ...place });
    }
    held.drive(runId);
  } finally {
    release();
  }
  return c.json(await view(await findRecord(store, runId), options));
}

async function streamEvents(c: Request, runId: string, options: RunRoutesOptions): Promise<Response> {
  const { store, clock, held, streamBounds, log } = options;
  await findRecord(store, runId);
  const stream = new EventStream({
    ...{ runId, store, log, host: clock, bounds: streamBounds },
    after: readPlace(c),
    hold: () => held.hold(runId),
    disconnect: () => c.env?.outgoing?.destroy(),
  });
  return c.body(stream.open(), 200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'X-Accel-Buffering': 'no',
  });
}

/** What the reader has: where a browser left off goes before what the address says. */
function readPlace(c: Request): number {
  const text = c.req.header('last-event-id') || c.req.query('after') || '0';
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new ApiError(
    'input-invalid',
    'Last-Event-ID and ?after= take the seq of a journal entry: a whole number.',
  );
}

function view(record: RunRecord, { store, clock, agents }: RunRoutesOptions) {
  return viewRun(record, {
    store,
    host: clock,
    availableAgent: agents.has(record.agent),
    showText: text => agents.showText(record.agent, text),
  });
}

function unavailable({ agent }: RunRecord): ApiError {
  return new ApiError(
    'agent-unavailable',
    `This server does not serve the run's agent, "${agent}", so that it could not go on here. Start the server with that agent's module (--agent MODULE), or use the command line. The run can be read, paused and cancelled here.`,
  );
}
