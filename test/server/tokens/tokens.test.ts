import { expect, test } from 'vitest';
import { EngineError } from '../../../protocol/error.ts';
import type { TokensConfig } from '../../../server/access/access-config.ts';
import { Tokens } from '../../../server/access/tokens.ts';

const A = 'aaaaaaaaaaaaaaaa';
const B = 'bbbbbbbbbbbbbbbb';
const client = (token: string) => ({ token, role: 'client' }) as const;

test.each<[string, string | undefined, TokensConfig, string]>([
  ['an empty token', undefined, { web: client('') }, '"web" has fewer than 16 characters'],
  ['a short token', undefined, { web: client('fifteen-letters') }, '"web" has fewer than 16 characters'],
  ['a token with a space', undefined, { web: client('a token of many words') }, '"web" has characters'],
  ['a token with a line break', undefined, { web: client(`${A}\n`) }, '"web" has characters'],
  ['a token that is not ASCII', undefined, { web: client(`${A}é`) }, '"web" has characters'],
  ['two equal tokens', undefined, { web: client(A), app: client(A) }, '"web" and "app" are the same token'],
  [
    'the main token again',
    A,
    { web: client(A) },
    'AGENTCHART_TOKEN (or --token) and "web" are the same token',
  ],
  ['the name of the main operator', undefined, { operator: client(A) }, '"operator" is a reserved name'],
  ['the name of everybody', undefined, { anyone: client(A) }, '"anyone" is a reserved name'],
])('%s is refused, without showing it', (_what, main, configured, expected) => {
  const make = () => new Tokens(main, configured);
  expect(make).toThrow(EngineError);
  expect(make).toThrow(expected);
  for (const { token } of Object.values(configured)) if (token !== '') expect(make).not.toThrow(token);
});

test('each token finds its caller, and nothing else finds one', () => {
  const tokens = new Tokens('main', {
    web: { ...client(A), labels: { tenant: 'a' } },
    desk: { token: B, role: 'approver' },
  });
  expect(tokens.find('main')).toEqual({
    name: 'operator',
    role: 'operator',
    labels: {},
    groups: [],
    known: 'asserted',
  });
  expect(tokens.find(A)).toEqual({
    name: 'web',
    role: 'client',
    labels: { tenant: 'a' },
    groups: [],
    known: 'token',
  });
  expect(tokens.find(B)).toEqual({ name: 'desk', role: 'approver', labels: {}, groups: [], known: 'token' });
  for (const wrong of ['', 'web', A.slice(1), `${A} `, A.toUpperCase(), '__proto__'])
    expect(tokens.find(wrong)).toBeUndefined();
  expect(JSON.stringify(tokens)).not.toContain(A);
});
