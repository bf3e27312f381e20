import * as z from 'zod';
import type { JsonObject, JsonValue } from '../../protocol/json.ts';
import { listQuery, sessionBody, startBody } from './request-bodies.ts';
import { resultPageSchema, resultQuery } from './result-routes.ts';
import { RUN_COMMANDS } from './run-commands.ts';
import { runSummarySchema, runViewSchema } from './run-view.ts';

const errorSchema = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    details: z.exactOptional(z.custom<JsonValue>()),
    by: z.exactOptional(z.string().meta({ description: 'Who decided before.' })),
  }),
});

const agentsSchema = z.object({
  agents: z.array(
    z.object({
      name: z.string(),
      version: z.exactOptional(z.string()),
      models: z.array(z.object({ provider: z.string(), model: z.string() })),
      tools: z.exactOptional(z.number().int()),
    }),
  ),
});

const healthSchema = z.object({ ok: z.literal(true), version: z.string() });

const ERRORS: JsonObject = { default: { $ref: '#/components/responses/Error' } };
const RUN_ID: JsonObject = { name: 'id', in: 'path', required: true, schema: { type: 'string' } };

/** The OpenAPI 3.1 description of the runs API, made from the schemas that check it. */
export function describeApi({ version, hasToken }: { version: string; hasToken: boolean }): JsonObject {
  return {
    openapi: '3.1.0',
    info: { title: 'Agentchart runs API', version },
    ...(hasToken ? { security: [{ token: [] }, { session: [] }] } : {}),
    paths: { ...describeServer(), ...describeRuns(), ...describeCommands() },
    components: {
      schemas: {
        Run: toSchema(runViewSchema),
        RunSummary: toSchema(runSummarySchema),
        Error: toSchema(errorSchema),
      },
      responses: {
        Error: { description: 'What went wrong', ...json({ $ref: '#/components/schemas/Error' }) },
      },
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'agentchart-PORT',
          description: 'From POST /session.',
        },
      },
    },
  };
}

function describeServer(): JsonObject {
  return {
    '/healthz': {
      get: { summary: 'Whether the server is up.', security: [], responses: ok(toSchema(healthSchema)) },
    },
    '/agents': { get: { summary: 'The agents that are served.', responses: ok(toSchema(agentsSchema)) } },
    '/session': {
      post: {
        summary: 'Exchange the token for a cookie.',
        security: [],
        ...body(sessionBody),
        responses: nothing(),
      },
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
      damaged: {
        type: 'array',
        items: { type: 'string' },
        description: 'What is wrong with the records that cannot be read, if there are any.',
      },
    },
  };
  return {
    '/runs': {
      get: {
        summary: 'The runs, newest first.',
        parameters: queryParameters(listQuery),
        responses: ok(summaries),
      },
      post: {
        summary: 'Begin a run; it is driven here.',
        ...body(startBody),
        responses: { '201': { description: 'The run', ...json(run) }, ...ERRORS },
      },
    },
    '/runs/{id}': {
      get: { summary: 'Where a run stands, and why.', parameters: [RUN_ID], responses: ok(run) },
      delete: {
        summary:
          'Remove a run with those of its sub-agents; 409 while one of them is driven, or another run continues it.',
        parameters: [RUN_ID],
        responses: nothing(),
      },
    },
    '/runs/{id}/events': { get: describeEvents() },
    ...describeResults(),
  };
}

function describeResults(): JsonObject {
  const call: JsonObject = { name: 'call', in: 'path', required: true, schema: { type: 'string' } };
  const text = { 'text/plain': { schema: { type: 'string' } } };
  return {
    '/runs/{id}/results/{call}': {
      get: {
        summary: "A page of a result's JSON: of a large one the run has only the head and the tail.",
        parameters: [RUN_ID, call, ...queryParameters(resultQuery)],
        responses: ok(toSchema(resultPageSchema)),
      },
    },
    '/runs/{id}/results/{call}/download': {
      get: {
        summary: "The whole of a result's JSON, as text.",
        parameters: [RUN_ID, call],
        responses: { '200': { description: 'The text', content: text }, ...ERRORS },
      },
    },
  };
}

function describeEvents(): JsonObject {
  return {
    summary: 'What happened and what happens, as server-sent events, until the run has ended.',
    description:
      'First `text` (the text of the running turn so far, if any); then a `journal` event for each entry, whose id is its seq; `delta` events for what is not journaled; `end` when the run has ended.',
    parameters: [
      RUN_ID,
      { name: 'after', in: 'query', schema: { type: 'integer', minimum: 0 } },
      { name: 'Last-Event-ID', in: 'header', schema: { type: 'integer', minimum: 0 } },
    ],
    responses: {
      '200': { description: 'The stream', content: { 'text/event-stream': { schema: { type: 'string' } } } },
      ...ERRORS,
    },
  };
}

function describeCommands(): JsonObject {
  const responses = ok({ $ref: '#/components/schemas/Run' });
  return Object.fromEntries(
    Object.entries(RUN_COMMANDS).map(([name, { summary, body: schema }]) => [
      `/runs/{id}/${name}`,
      { post: { summary, parameters: [RUN_ID], ...body(schema), responses } },
    ]),
  );
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

function json(schema: JsonObject): JsonObject {
  return { content: { 'application/json': { schema } } };
}

function toSchema(schema: z.ZodType): JsonObject {
  const { $schema, ...rest } = z.toJSONSchema(schema, { unrepresentable: 'any', io: 'input' });
  return JSON.parse(JSON.stringify(rest));
}
