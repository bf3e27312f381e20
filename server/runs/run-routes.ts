import type { HttpBindings } from '@hono/node-server';
import type { Context, Hono } from 'hono';
import type { Host } from '../../engine/driver/host.ts';
import { isOwnerDead } from '../../engine/driver/owner.ts';
import { type Fold, loadRun } from '../../engine/journal/load-run.ts';
import type { RunCommand } from '../../engine/run/command.ts';
import type { Run } from '../../engine/run/run.ts';
import type { RunRecord, Store } from '../../protocol/store.ts';
import { ApiError } from '../error-envelope.ts';
import { type BodyLimits, describeIssues, readBody } from '../read-body.ts';
import { EventStream, type StreamBounds } from './event-stream.ts';
import { listQuery, startBody } from './request-bodies.ts';
import { downloadResult, readResultPage } from './result-routes.ts';
import { type CommandPath, RUN_COMMANDS } from './run-commands.ts';
import { findRecord, type RunRegistry } from './run-registry.ts';
import { type RunView, summarizeRun, viewRun } from './run-view.ts';
import type { ServedAgents } from './served-agents.ts';

export type RunRoutesOptions = {
  store: Store;
  clock: Host;
  agents: ServedAgents;
  held: RunRegistry;
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
  app.get('/runs/:id', async c => {
    const record = await findRecord(store, c.req.param('id'));
    return c.json(await view(record, await loadRun(store, record.runId), options));
  });
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
  for (const [name, path] of Object.entries(RUN_COMMANDS)) {
    app.post(`/runs/:id/${name}`, c =>
      submitCommands(c, { runId: c.req.param('id') ?? '', name, ...path }, options),
    );
  }
}

async function startRun(c: Request, options: RunRoutesOptions): Promise<Response> {
  const { clock, agents, held, bodyLimits } = options;
  const body = await readBody(c.req.raw, startBody, bodyLimits);
  const { agent: name, input, ...start } = body;
  const agent = agents.choose(name);
  const launch = agents.launchOf(agent.name);
  const runId = clock.newId('run');
  const run = await held.begin(runId, () =>
    agent.start(input, { ...start, runId, ...(launch === undefined ? {} : { launch }) }),
  );
  c.header('Location', `/runs/${runId}`);
  return c.json(await viewHeld(run, options), 201);
}

async function submitCommands(
  c: Request,
  { runId, name, body, needsAgent }: CommandPath & { runId: string; name: string },
  options: RunRoutesOptions,
): Promise<Response> {
  const { held, bodyLimits } = options;
  const said = await readBody(c.req.raw, body, bodyLimits);
  const { run, isServed, release } = await held.hold(runId);
  try {
    if (needsAgent && !isServed) throw unavailable(run);
    const result = await run.submit(commandsOf(name, said));
    if (!result.accepted) {
      const place = name === 'commands' ? { details: { index: result.index } } : {};
      throw new ApiError(result.code, result.message, { by: result.by, ...place });
    }
    held.drive(runId);
    return c.json(await viewHeld(run, options));
  } finally {
    release();
  }
}

/** What a body says, which its path's schema has let through. */
function commandsOf(name: string, body: unknown): RunCommand[] {
  if (name === 'resume') return [];
  return name === 'commands' ? (body as RunCommand[]) : [{ type: name, ...(body as object) } as RunCommand];
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

/** As it stands here: what a command led to is not read back. */
async function viewHeld(run: Run, options: RunRoutesOptions): Promise<RunView> {
  const record = await findRecord(options.store, run.id);
  return await view(record, run.durable, options);
}

function view(record: RunRecord, fold: Fold, { store, clock, agents }: RunRoutesOptions): Promise<RunView> {
  return viewRun(record, fold, {
    store,
    host: clock,
    availableAgent: agents.has(record.agent),
    showText: text => agents.showText(record.agent, text),
  });
}

function unavailable({ context }: Run): ApiError {
  return new ApiError(
    'agent-unavailable',
    `This server does not serve the run's agent, "${context.agent.name}", so that it could not go on here. Start the server with that agent's module (--agent MODULE), or use the command line. The run can be read, paused and cancelled here.`,
  );
}
