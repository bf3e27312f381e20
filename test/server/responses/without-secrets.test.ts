import { expect, test } from 'vitest';
import { withoutSecrets } from '../../../server/responses/wire/response-spec.ts';

test('a request is stored without the credentials of its servers', () => {
  const server = {
    type: 'mcp' as const,
    server_label: 'desk',
    server_url: 'https://desk.example/mcp?token=hidden-1',
    authorization: 'hidden-2',
    headers: { 'x-key': 'hidden-3' },
    access_token: 'hidden-4',
    require_approval: 'never' as const,
  };
  const body = { model: 'm', input: [], tools: [server] } as unknown;
  const kept = withoutSecrets(body as Parameters<typeof withoutSecrets>[0]);
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
