import * as z from 'zod';
import { ROLES } from '../../access/role.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../../protocol/json.ts';
import type { Labels } from '../../protocol/listing/label.ts';
import { bulkBody, bulkSchema } from './commands/command-routes.ts';
import { forkBody } from './commands/fork-route.ts';
import { listQuery, sessionBody, startBody } from './commands/request-bodies.ts';
import { RUN_COMMANDS } from './commands/run-commands.ts';
import { exploreQuery, exploreRunQuery } from './exploring/explore-route.ts';
import { inboxQuery, inboxSchema } from './inbox/inbox-routes.ts';
import { eventsQuery } from './live/event-routes.ts';
import { agentViewSchema } from './reading/agent-view.ts';
import { entriesQuery, entriesSchema, stateQuery, stateSchema } from './reading/journal-routes.ts';
import { resultPageSchema, resultQuery } from './result-routes.ts';
import { agentSummarySchema, runSummarySchema, runViewSchema } from './run-view.ts';
import { exportQuery, shareQuery } from './sharing/share-routes.ts';

const errorSchema = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    details: z.exactOptional(z.custom<JsonValue>()),
    by: z.exactOptional(z.string().meta({ description: 'Who made the earlier decision.' })),
  }),
});

const agentsSchema = z.object({ agents: z.array(agentSummarySchema) });

const meSchema = z.object({
  name: z.string(),
  role: z.enum(ROLES),
  labels: z
    .custom<Labels>()
    .meta({ description: 'Strings by name: the caller sees only runs with these.', type: 'object' }),
});

const callerSchema = z.object({ name: z.string(), role: z.enum(ROLES) });

const healthSchema = z.object({ ok: z.literal(true), version: z.string() });

const ERRORS: JsonObject = { default: { $ref: '#/components/responses/Error' } };
const STREAM: JsonObject = {
  '200': { description: 'The stream', content: { 'text/event-stream': { schema: { type: 'string' } } } },
  ...ERRORS,
};
const RUN_ID: JsonObject = { name: 'id', in: 'path', required: true, schema: { type: 'string' } };

/** The OpenAPI 3.1 description of the runs API, generated from the schemas that validate its requests. */
export function describeApi({ version, hasToken }: { version: string; hasToken: boolean }): JsonObject {
  return {
    openapi: '3.1.0',
    info: { title: 'Agentchart runs API', version },
    ...omitUndefined({ security: hasToken ? [{ token: [] }, { session: [] }] : undefined }),
    paths: { ...describeServer(), ...describeRuns(), ...describeCommands() },
    components: {
      schemas: {
        Run: toSchema(runViewSchema),
        RunSummary: toSchema(runSummarySchema),
        Error: toSchema(errorSchema),
      },
      responses: {
        Error: { description: 'The error', ...json({ $ref: '#/components/schemas/Error' }) },
      },
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'agentchart-PORT',
          description: 'Set by POST /session.',
        },
      },
    },
  };
}

function describeServer(): JsonObject {
  return {
    '/healthz': {
      get: {
        summary: 'Check whether the server is up.',
        security: [],
        responses: ok(toSchema(healthSchema)),
      },
    },
    '/readyz': {
      get: {
        summary: 'Check whether the server takes work and its store answers.',
        security: [],
        responses: ok(toSchema(z.object({ ok: z.literal(true) }))),
      },
    },
    '/metrics': {
      get: {
        summary:
          'Read the metrics of all runs, in the text format of Prometheus. Not for tokens with labels.',
        responses: {
          '200': { description: 'Done', content: { 'text/plain': { schema: { type: 'string' } } } },
          ...ERRORS,
        },
      },
    },
    '/agents': {
      get: { summary: 'List the agents that can start runs.', responses: ok(toSchema(agentsSchema)) },
    },
    '/agents/{name}': {
      get: {
        summary: 'Read an agent: its instructions, its tools and their schemas, and its limits.',
        parameters: [{ name: 'name', in: 'path', required: true, schema: { type: 'string' } }],
        responses: ok(toSchema(agentViewSchema)),
      },
    },
    '/agents/{name}/explore': {
      get: {
        summary: 'Walk every path of an agent’s runs in a separate process. Executes nothing.',
        description:
          'Server-sent events: `progress` ({ states }), then `result` ({ report }, as `agentchart explore --json`) or `failed` ({ message }). One at a time.',
        parameters: [
          { name: 'name', in: 'path', required: true, schema: { type: 'string' } },
          ...queryParameters(exploreQuery),
        ],
        responses: STREAM,
      },
    },
    '/me': { get: { summary: 'Read the caller: name, role, labels.', responses: ok(toSchema(meSchema)) } },
    '/session': {
      post: {
        summary: 'Sign in: exchange the token for a session cookie.',
        security: [],
        ...body(sessionBody),
        responses: nothing(),
      },
      get: { summary: 'Read the signed-in caller: name and role.', responses: ok(toSchema(callerSchema)) },
      delete: { summary: 'Sign out.', security: [], responses: nothing() },
    },
  };
}

function describeRuns(): JsonObject {
  const run = { $ref: '#/components/schemas/Run' };
  const summaries: JsonObject = {
    type: 'object',
    required: ['runs'],
    properties: {
      runs: { type: 'array', items: { $ref: '#/components/schemas/RunSummary' } },
      next: {
        type: 'string',
        description: 'The cursor of the next page, for the same filter and order. Absent at the end.',
      },
      damaged: {
        type: 'array',
        items: { type: 'string' },
        description: 'One error message for each run record that cannot be read.',
      },
    },
  };
  return {
    '/runs': {
      get: {
        summary: 'List the runs, newest first.',
        parameters: queryParameters(listQuery),
        responses: ok(summaries),
      },
      post: {
        summary: 'Start a run. This server drives it.',
        ...body(startBody),
        responses: { '201': { description: 'The run', ...json(run) }, ...ERRORS },
      },
    },
    '/runs/{id}': {
      get: {
        summary: 'Read the state of a run, and why it is in that state.',
        parameters: [RUN_ID],
        responses: ok(run),
      },
      delete: {
        summary:
          'Delete a run and the runs of its sub-agents. 409 while one of them is driven or another run continues it.',
        parameters: [RUN_ID],
        responses: nothing(),
      },
    },
    '/runs/{id}/events': { get: describeEvents() },
    '/runs/{id}/entries': {
      get: {
        summary: 'Read a page of the journal: forward from an entry, or the last entries before one.',
        parameters: [RUN_ID, ...queryParameters(entriesQuery)],
        responses: ok(toSchema(entriesSchema)),
      },
    },
    '/runs/{id}/state': {
      get: {
        summary: 'Read the state of a run after an entry.',
        parameters: [RUN_ID, ...queryParameters(stateQuery)],
        responses: ok(toSchema(stateSchema)),
      },
    },
    '/runs/{id}/explore': {
      get: {
        summary: 'Walk what may still happen to a run after an entry. Executes nothing.',
        description: 'As `/agents/{name}/explore`; the report is that of `agentchart explore RUN --json`.',
        parameters: [RUN_ID, ...queryParameters(exploreRunQuery)],
        responses: STREAM,
      },
    },
    ...describeResults(),
    '/runs/{id}/export': {
      get: {
        summary:
          'Download a run as agentchart export writes it: JSON, then a line for each part of a large result.',
        parameters: [RUN_ID, ...queryParameters(exportQuery)],
        responses: file('The run, or a test of it', 'application/x-ndjson', 'text/plain'),
      },
    },
    '/runs/{id}/share': {
      get: {
        summary: 'Download one HTML file that plays the run without a server.',
        parameters: [RUN_ID, ...queryParameters(shareQuery)],
        responses: file('The file', 'text/html'),
      },
    },
    '/inbox': {
      get: {
        summary:
          'List every open decision and doubt of all runs: each once, with the topmost run of its family.',
        parameters: queryParameters(inboxQuery),
        responses: ok(toSchema(inboxSchema)),
      },
    },
    '/events': { get: describeAllEvents() },
  };
}

function describeResults(): JsonObject {
  const call: JsonObject = { name: 'call', in: 'path', required: true, schema: { type: 'string' } };
  const seq: JsonObject = {
    name: 'seq',
    in: 'path',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  };
  const download = (summary: string, parameter: JsonObject) => ({
    get: { summary, parameters: [RUN_ID, parameter], responses: file('The JSON text', 'text/plain') },
  });
  return {
    '/runs/{id}/results/{call}': {
      get: {
        summary:
          "Read one page of a result's JSON. The transcript holds only the beginning and end of a large result.",
        parameters: [RUN_ID, call, ...queryParameters(resultQuery)],
        responses: ok(toSchema(resultPageSchema)),
      },
    },
    '/runs/{id}/results/{call}/download': download("Download a result's full JSON as text.", call),
    '/runs/{id}/entries/{seq}/requests': download(
      "Download the requests and replies of the model call that ended with an entry, for agents with `capture: 'requests'`: a list of { path, request, status, reply }.",
      seq,
    ),
  };
}

function describeEvents(): JsonObject {
  return {
    summary: 'Stream the journal and live output as server-sent events, until the run ends.',
    description:
      'First a `text` event with the text of the running turn so far, if any. Then one `journal` event per entry (its id is the seq), `delta` events for live output that is not journaled, and `end` when the run has ended. To resume, send the last id as `Last-Event-ID` or `after`.',
    parameters: [
      RUN_ID,
      { name: 'after', in: 'query', schema: { type: 'integer', minimum: 0 } },
      { name: 'Last-Event-ID', in: 'header', schema: { type: 'integer', minimum: 0 } },
    ],
    responses: STREAM,
  };
}

function describeAllEvents(): JsonObject {
  return {
    summary: 'Follow several runs, and the changes of all, on one stream of server-sent events.',
    description:
      'The events of `/runs/{id}/events`, with `runId` in each data; the id of an entry encodes the position in every run. `gone`: there is no such run. With `summaries=1` also: `ready` (later changes will be sent: read the lists again), `summary` (a run as in `GET /runs`), `inbox` ({ runId, items }: all items of this run, which replace the earlier ones) and `removed` (a run was deleted). To resume, send the last id as `Last-Event-ID`.',
    parameters: [
      ...queryParameters(eventsQuery),
      { name: 'Last-Event-ID', in: 'header', schema: { type: 'string' } },
    ],
    responses: STREAM,
  };
}

function describeCommands(): JsonObject {
  const responses = ok({ $ref: '#/components/schemas/Run' });
  const bulk: JsonObject = {
    post: {
      summary: 'Submit one command to many runs, and read the outcome for each run.',
      ...body(bulkBody),
      responses: ok(toSchema(bulkSchema)),
    },
  };
  const single = Object.fromEntries(
    Object.entries(RUN_COMMANDS).map(([name, { summary, body: schema }]) => [
      `/runs/{id}/${name}`,
      { post: { summary, parameters: [RUN_ID], ...body(schema), responses } },
    ]),
  );
  const fork: JsonObject = {
    post: {
      summary:
        'Start a run with a copy of the journal up to an entry, and with changes. This server drives it.',
      parameters: [RUN_ID],
      ...body(forkBody),
      responses: {
        '201': { description: 'The fork', ...json({ $ref: '#/components/schemas/Run' }) },
        ...ERRORS,
      },
    },
  };
  return { ...single, '/runs/bulk': bulk, '/runs/{id}/fork': fork };
}

function queryParameters(query: z.ZodType): JsonValue[] {
  const { properties } = toSchema(query);
  return Object.entries(properties as JsonObject).map(([name, schema]) => ({ name, in: 'query', schema }));
}

function body(schema: z.ZodType): JsonObject {
  const isRequired = !schema.safeParse({}).success;
  return { requestBody: { required: isRequired, ...json(toSchema(schema)) } };
}

function ok(schema: JsonObject): JsonObject {
  return { '200': { description: 'Done', ...json(schema) }, ...ERRORS };
}

function nothing(): JsonObject {
  return { '204': { description: 'Done' }, ...ERRORS };
}

function file(description: string, ...types: string[]): JsonObject {
  const content = Object.fromEntries(types.map(type => [type, { schema: { type: 'string' } }]));
  return { '200': { description, content }, ...ERRORS };
}

function json(schema: JsonObject): JsonObject {
  return { content: { 'application/json': { schema } } };
}

function toSchema(schema: z.ZodType): JsonObject {
  const { $schema, ...rest } = z.toJSONSchema(schema, { unrepresentable: 'any', io: 'input' });
  return JSON.parse(JSON.stringify(rest));
}
