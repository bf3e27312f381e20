import { Validator } from '@seriousme/openapi-schema-validator';
import { expect, test } from 'vitest';
import * as z from 'zod';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import { OPEN_ROUTES, RUNS_ROUTES, SERVER_ROUTES } from '../../../server/route-table.ts';
import { makeApp } from '../../support/server/runs-app.ts';

function objectAt(value: unknown, ...path: string[]): JsonObject {
  let at: unknown = value;
  for (const key of path) at = isJsonObject(at) ? at[key] : undefined;
  if (!isJsonObject(at)) throw new Error(`nothing at ${path.join('.')}`);
  return at;
}

const { send } = makeApp();
const document: unknown = await (await send('GET', '/openapi.json')).json();

test('the description has exactly the routes of the API', () => {
  const described = Object.entries(objectAt(document, 'paths')).flatMap(([path, operations]) =>
    Object.keys(objectAt(operations)).map(method => `${method.toUpperCase()} ${path}`),
  );
  const routes = Object.keys({ ...OPEN_ROUTES, ...SERVER_ROUTES, ...RUNS_ROUTES });
  expect(described.sort()).toEqual(routes.map(key => key.replace(/:(\w+)/g, '{$1}')).sort());
});

test('the description is valid OpenAPI 3.1', async () => {
  expect(document).toMatchObject({ openapi: '3.1.0' });
  expect(await new Validator().validate(objectAt(document))).toEqual({ valid: true });
});

test('every command has a body schema: the one that validates it', () => {
  const approve = objectAt(document, 'paths', '/runs/{id}/approve', 'post', 'requestBody');
  const schema = objectAt(approve, 'content', 'application/json', 'schema');
  expect(approve.required).toBe(true);
  expect(schema).toMatchObject({
    type: 'object',
    required: ['callId'],
    additionalProperties: false,
    properties: { callId: { type: 'string' }, input: {}, sticky: { type: 'boolean' } },
  });
});

test('a review is described: in the commands, in the run and in the inbox, as the server sends it', async () => {
  const bodyOf = (command: string) =>
    objectAt(
      document,
      'paths',
      `/runs/{id}/${command}`,
      'post',
      'requestBody',
      'content',
      'application/json',
    );
  expect(objectAt(bodyOf('approve'), 'schema', 'properties', 'answer').description).toContain('review');
  expect(objectAt(bodyOf('reject'), 'schema', 'properties')).toHaveProperty('reason');
  const guardrails = {
    answer: () => ({
      type: 'ask' as const,
      reason: 'a price',
      by: 'managers',
      quorum: 2,
      expiresInMs: 60_000,
    }),
  };
  const output = z.object({ cents: z.int() });
  const desk = makeApp({ turns: [{ text: '{"cents":5}' }], agent: { guardrails, output } });
  const run = await desk.begin();
  const inbox = await (await desk.send('GET', '/inbox')).json();
  expect(inbox).toMatchObject({ items: [{ kind: 'review', call: { output: { cents: 5 }, quorum: 2 } }] });
  const answers = objectAt(document, 'paths', '/inbox', 'get', 'responses', '200', 'content');
  const described = [
    [run, objectAt(document, 'components', 'schemas', 'Run')],
    [inbox, objectAt(answers, 'application/json', 'schema')],
  ] as const;
  for (const [value, schema] of described) {
    const { success } = z.fromJSONSchema(schema as never).safeParse(value);
    expect(success).toBe(true);
    const other = JSON.parse(JSON.stringify(value).replaceAll('"kind":"review"', '"kind":"reviews"'));
    expect(z.fromJSONSchema(schema as never).safeParse(other).success).toBe(false);
  }
});

test('every operation names the roles that may use it, from the table of roles', () => {
  const rolesOf = (path: string, method: string) => objectAt(document, 'paths', path, method)['x-roles'];
  expect(rolesOf('/runs/{id}/approve', 'post')).toEqual(['operator', 'approver']);
  expect(rolesOf('/runs/{id}/answer', 'post')).toEqual(['operator', 'approver', 'requester']);
  expect(rolesOf('/runs/{id}/fork', 'post')).toEqual(['operator']);
  expect(rolesOf('/runs', 'post')).toEqual(['operator', 'requester']);
  expect(rolesOf('/agents/{name}', 'get')).toEqual(['operator', 'approver', 'viewer']);
});

test('every reference resolves', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(
    ([, path]) => path ?? '',
  );
  expect(references.length).toBeGreaterThan(10);
  for (const path of new Set(references)) expect(objectAt(document, ...path.split('/'))).toBeDefined();
});
