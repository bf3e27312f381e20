import * as z from 'zod';
import { may, ROLES } from '../access/role.ts';
import { type JsonObject, type JsonValue, omitUndefined } from '../protocol/json.ts';
import { optional } from './fields.ts';
import { type Route, type RouteAnswer, type RouteTable, rightsFor } from './route.ts';
import { runSummarySchema, runViewSchema } from './runs/run-view.ts';

const errorSchema = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    details: z.exactOptional(z.custom<JsonValue>()),
    by: optional(
      z.union([z.string(), z.array(z.string())]),
      'Who made the earlier decision, or the groups that may decide.',
    ),
  }),
});

const COMPONENTS = { Run: runViewSchema, RunSummary: runSummarySchema, Error: errorSchema };

const references = new Map<unknown, JsonObject>(
  Object.entries(COMPONENTS).map(([name, schema]) => [schema, { $ref: `#/components/schemas/${name}` }]),
);

export function describeApi(
  routes: RouteTable,
  { version, hasToken }: { version: string; hasToken: boolean },
): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const [key, route] of Object.entries(routes)) {
    if (route.answer === undefined && route.streams === undefined) continue;
    const [method = '', pattern = ''] = key.split(' ');
    const path = pattern.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [method.toLowerCase()]: describeRoute(method, path, route) };
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Agentchart runs API', version },
    ...omitUndefined({ security: hasToken ? [{ token: [] }, { session: [] }] : undefined }),
    paths,
    components: {
      schemas: Object.fromEntries(
        Object.entries(COMPONENTS).map(([name, schema]) => [name, toSchema(schema, schema)]),
      ),
      responses: { Error: { description: 'The error', ...json(errorSchema) } },
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

function describeRoute(method: string, path: string, route: Route): JsonObject {
  const { summary, description, open, query, body, answer = STREAM, parameters: own = [] } = route;
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(
    ([, name = '']) =>
      own.find(one => one.in === 'path' && one.name === name) ?? {
        name,
        in: 'path',
        schema: { type: 'string' },
      },
  );
  const inQuery = Object.entries((query === undefined ? {} : toSchema(query).properties) as JsonObject);
  const parameters = [
    ...inPath.map(one => ({ ...one, required: true })),
    ...inQuery.map(([name, schema]) => ({ name, in: 'query', schema })),
    ...own.filter(one => one.in !== 'path'),
  ];
  const rights = rightsFor(route, method, 'runs');
  return omitUndefined({
    summary,
    description,
    'x-roles': ROLES.filter(role => rights.some(right => may({ role }, right))),
    security: open && [],
    parameters: parameters.length > 0 ? parameters : undefined,
    requestBody: body && { required: !body.safeParse({}).success, ...json(body) },
    responses: {
      ...describeAnswer(answer instanceof z.core.$ZodType ? { json: answer } : answer),
      default: { $ref: '#/components/responses/Error' },
    },
  });
}

const STREAM: RouteAnswer = { description: 'The stream', text: ['text/event-stream'] };

function describeAnswer({ status = 200, description = 'Done', json: schema, text }: RouteAnswer): JsonObject {
  const texts = text?.map(type => [type, { schema: { type: 'string' } }]);
  const content = texts && { content: Object.fromEntries(texts) };
  return { [status]: { description, ...content, ...(schema && json(schema)) } };
}

function json(schema: z.core.$ZodType): JsonObject {
  return { content: { 'application/json': { schema: toSchema(schema) } } };
}

/** The JSON Schema of the value that is sent for a schema. Refers to the components, except to `own`. */
export function toSchema(schema: z.core.$ZodType, own?: z.core.$ZodType): JsonObject {
  const { $schema, ...rest } = z.toJSONSchema(schema, {
    unrepresentable: 'any',
    io: 'input',
    override({ zodSchema, jsonSchema }) {
      const reference = Object.is(zodSchema, own) ? undefined : references.get(zodSchema);
      if (reference === undefined) return;
      for (const member of Object.keys(jsonSchema)) delete jsonSchema[member as keyof typeof jsonSchema];
      Object.assign(jsonSchema, reference);
    },
  });
  return JSON.parse(JSON.stringify(rest));
}
