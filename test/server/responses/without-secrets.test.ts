import { expect, test } from 'vitest';
import { recordOf } from '../../../server/gateway/request/gateway-request.ts';
import { readCreateBody } from '../../../server/responses/request-body.ts';

test('a request is stored without the credentials of its servers', () => {
  const server = {
    type: 'mcp',
    server_label: 'desk',
    server_url: 'https://desk.example/mcp?token=hidden-1',
    authorization: 'hidden-2',
    headers: { 'x-key': 'hidden-3' },
    access_token: 'hidden-4',
    require_approval: 'never',
  };
  const kept = recordOf(readCreateBody({ model: 'm', input: [], tools: [server] }));
  expect(JSON.stringify(kept)).not.toContain('hidden');
  expect(kept.tools).toEqual([
    {
      type: 'mcp',
      server_label: 'desk',
      server_url: 'https://desk.example/mcp',
      require_approval: 'never',
      headers: null,
    },
  ]);
});
