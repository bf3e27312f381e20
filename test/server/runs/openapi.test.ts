import { expect, test } from 'vitest';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import { makeApp } from '../../support/server/runs-app.ts';

function objectAt(value: unknown, ...path: string[]): JsonObject {
  let at: unknown = value;
  for (const key of path) at = isJsonObject(at) ? at[key] : undefined;
  if (!isJsonObject(at)) throw new Error(`nothing at ${path.join('.')}`);
  return at;
}

const { app, send } = makeApp();
const document: unknown = await (await send('GET', '/openapi.json')).json();

test('the description has exactly the routes of the API', () => {
  const described = Object.entries(objectAt(document, 'paths')).flatMap(([path, operations]) =>
    Object.keys(objectAt(operations)).map(method => `${method.toUpperCase()} ${path}`),
  );
  const routed = app.hono.routes
    .filter(({ method, path }) => method !== 'ALL' && path !== '/openapi.json')
    .map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, '{$1}')}`);
  expect(described.sort()).toEqual([...new Set(routed)].sort());
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

test('every reference resolves', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(
    ([, path]) => path ?? '',
  );
  expect(references.length).toBeGreaterThan(10);
  for (const path of new Set(references)) expect(objectAt(document, ...path.split('/'))).toBeDefined();
});
